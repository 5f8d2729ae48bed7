"""What the tables of the runtime hold fits the words that compiled code reads."""

from egshape.adapters.native import compile_function
from egshape.runtime import artifact
from egshape.runtime.abi.call import LAYOUT, PROFILE_WORDS
from egshape.runtime.core import objects, program
from egshape.runtime.core.profile import KernelTime
from tests.runtime.test_function import identity


def test_the_layout_of_objects() -> None:
    assert objects._FOUND is not None
    rows = 1
    assert len(objects._FOUND) + rows + len(objects._LOCK) == len(LAYOUT)


def test_the_table_of_times() -> None:
    assert len(KernelTime.__dataclass_fields__) == PROFILE_WORDS + 1


def test_the_version_and_entries() -> None:
    made = compile_function(identity())
    assert made.manifest["version"] == artifact.VERSION
    assert set(program.ENTRIES) == {"egshape_entry", "egshape_python", "egshape_pool"}
