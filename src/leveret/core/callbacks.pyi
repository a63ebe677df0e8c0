from collections.abc import Callable

from leveret.core.dead_lettering import DeadLetters
from leveret.core.engine import QueueCallbacks
from leveret.core.queue import Queue

class Callbacks(QueueCallbacks):
    def __init__(self, dead_letters: DeadLetters, delete_unused: Callable[[Queue], None]) -> None: ...
