"""What every family of ops builds on: constants, nests, slices, seeds, broadcasting, printing.

This family imports no other one."""

from __future__ import annotations

from tideflow.ops.framework.broadcasting import conj, unbroadcast
from tideflow.ops.framework.constants import (
    as_shape,
    constant,
    fill,
    identity,
    is_zeros_like,
    no_op,
    placeholder,
    placeholder_with_default,
    shape_argument,
    zeros_of,
)
from tideflow.ops.framework.gradient_names import gradient_scope, gradient_source
from tideflow.ops.framework.indexed_slices import IndexedSlices, convert_to_tensor_or_indexed_slices
from tideflow.ops.framework.jax_lax import lax
from tideflow.ops.framework.printing import Assert, check_numerics
from tideflow.ops.framework.resources import Asset, CapturableResource
from tideflow.ops.framework.saved_parts import Saved, SavedPart
from tideflow.ops.framework.scopes import scoped
from tideflow.ops.framework.seeds import get_seed
from tideflow.ops.framework.shape_checks import check_scalar, check_vector, of_one_shape
from tideflow.ops.framework.slices_spec import IndexedSlicesSpec
from tideflow.ops.framework.stated_values import get_static_value
from tideflow.ops.framework.text_format import element_text
from tideflow.ops.framework.texts import as_text as as_text
from tideflow.ops.framework.texts import snake_case
from tideflow.ops.framework.trackable import (
    OWN_ATTRIBUTES,
    Trackable,
    hold_structure,
    join_restoration,
    leave_restoration,
    let_go,
    resume_restoring,
)

__all__ = [
    "OWN_ATTRIBUTES",
    "Assert",
    "Asset",
    "CapturableResource",
    "IndexedSlices",
    "IndexedSlicesSpec",
    "Saved",
    "SavedPart",
    "Trackable",
    "as_shape",
    "check_numerics",
    "check_scalar",
    "check_vector",
    "conj",
    "constant",
    "convert_to_tensor_or_indexed_slices",
    "element_text",
    "fill",
    "get_seed",
    "get_static_value",
    "gradient_scope",
    "gradient_source",
    "hold_structure",
    "identity",
    "is_zeros_like",
    "join_restoration",
    "lax",
    "leave_restoration",
    "let_go",
    "no_op",
    "of_one_shape",
    "placeholder",
    "placeholder_with_default",
    "resume_restoring",
    "scoped",
    "shape_argument",
    "snake_case",
    "unbroadcast",
    "zeros_of",
]
