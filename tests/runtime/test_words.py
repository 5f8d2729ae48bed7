"""What the compiler and the runtime, which may not import each other, must spell alike."""

from egshape.lower import entry, objects, redzones, timing
from egshape.runtime import artifact, call, errors, function
from egshape.runtime import objects as read
from egshape.runtime import redzones as watched
from egshape.runtime.profile import KernelTime


def test_the_call_structure():
    assert entry.WORDS == call.WORDS and entry.ERROR_WORDS == call.ERROR_WORDS


def test_the_layout_of_objects():
    assert read._FOUND is not None and len(read._FOUND) == len(objects.LAYOUT)


def test_red_zones_and_their_code():
    assert (redzones.PATTERN, redzones.CODE) == (watched.PATTERN, errors.ZONE)


def test_the_table_of_times():
    assert timing.ROW_WORDS == 4 and len(KernelTime.__dataclass_fields__) == 5


def test_the_version_and_entries(tmp_path):
    from egshape.adapters.native import compile_function
    from tests.runtime.test_function import identity

    made = compile_function(identity())
    assert made.manifest["version"] == artifact.VERSION
    assert set(function.ENTRIES) == {"egshape_entry", "egshape_python", "egshape_pool"}
