from leveret.core.engine import Engine

class Placement:
    def __init__(self, engine: Engine) -> None: ...
