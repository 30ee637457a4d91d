"""How all programs that are spoilt are built, by op."""

from __future__ import annotations

from ops.spoilt_dataset_functions import dataset_function_programs
from ops.spoilt_dataset_parts import dataset_part_programs
from ops.spoilt_dataset_programs import dataset_programs
from ops.spoilt_file_programs import file_programs
from ops.spoilt_function_programs import function_programs
from ops.spoilt_iterator_programs import iterator_programs
from ops.spoilt_other_programs import other_programs
from ops.spoilt_programs import Build
from ops.spoilt_state_programs import state_programs

# By op; a second program of an op has more words in its name.
BUILDS: dict[str, Build] = (
    state_programs()
    | dataset_programs()
    | dataset_part_programs()
    | dataset_function_programs()
    | function_programs()
    | iterator_programs()
    | file_programs()
    | other_programs()
)
