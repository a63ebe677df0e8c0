"""The former name of leveret.spark: its modules can still be imported from here, with a warning."""

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

OLD, NEW = "leveret.pipeline.", "leveret.spark."


class _Renamed(MetaPathFinder, Loader):
    """Finds leveret.pipeline.X and gives leveret.spark.X in its place: the same module, not a copy."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Speak for the old names of modules that exist."""
        if not name.startswith(OLD) or find_spec(NEW + name.removeprefix(OLD)) is None:
            return None
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module under its new name."""
        return import_module(NEW + spec.name.removeprefix(OLD))

    def exec_module(self, module: ModuleType) -> None:
        """It was run when it was imported."""


warnings.warn("leveret.pipeline is called leveret.spark now: import that", DeprecationWarning, stacklevel=2)
sys.meta_path.insert(0, _Renamed())
