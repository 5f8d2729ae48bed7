"""What the tables of the runtime hold fits the words that compiled code reads."""

from egshape.runtime.abi.call import LAYOUT, PROFILE_WORDS
from egshape.runtime.core import objects, program
from egshape.runtime.core.profile import KernelTime


def test_the_layout_of_objects() -> None:
    assert objects._FOUND is not None
    rows = 1
    assert len(objects._FOUND) + rows + len(objects._LOCK) == len(LAYOUT)


def test_the_table_of_times() -> None:
    assert len(KernelTime.__dataclass_fields__) == PROFILE_WORDS + 1


def test_the_entries() -> None:
    assert set(program.ENTRIES) == {"egshape_entry", "egshape_python", "egshape_pool"}
