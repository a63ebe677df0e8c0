"""What a real RabbitMQ answered; see record.py."""

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORDED: dict[str, dict[str, Any]] = json.loads((HERE / "recorded.json").read_text())
DEFINITIONS: dict[str, Any] = json.loads((HERE / "definitions.json").read_text())
