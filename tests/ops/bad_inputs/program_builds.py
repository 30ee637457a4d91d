"""How each program with fed inputs is built, by op."""

from __future__ import annotations

from ops.bad_inputs.dataset_function_programs import dataset_function_programs
from ops.bad_inputs.dataset_part_programs import dataset_part_programs
from ops.bad_inputs.dataset_programs import dataset_programs
from ops.bad_inputs.dataset_source_programs import dataset_source_programs
from ops.bad_inputs.file_programs import file_programs
from ops.bad_inputs.function_programs import function_programs
from ops.bad_inputs.iterator_programs import iterator_programs
from ops.bad_inputs.matrix_programs import matrix_programs
from ops.bad_inputs.other_programs import other_programs
from ops.bad_inputs.programs import Build
from ops.bad_inputs.state_programs import state_programs

# By op; a second program of an op has more words in its name.
BUILDS: dict[str, Build] = (
    state_programs()
    | dataset_programs()
    | dataset_part_programs()
    | dataset_source_programs()
    | dataset_function_programs()
    | function_programs()
    | iterator_programs()
    | file_programs()
    | other_programs()
    | matrix_programs()
)
