from typing import Any

from leveret.core.definition_log import DefinitionLog
from leveret.core.engine import Engine
from leveret.core.queue import Queue

class Placement:
    def __init__(self, engine: Engine) -> None: ...

def write(engine: Engine, queues: dict[int, Queue], defined: dict[str, Any]) -> bytearray: ...
def read(places: Placement, queues: dict[int, Queue], definitions: DefinitionLog, snapshot: memoryview) -> None: ...
