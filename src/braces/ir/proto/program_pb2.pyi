from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VarKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VAR_KIND_UNSPECIFIED: _ClassVar[VarKind]
    VAR_KIND_VALUE: _ClassVar[VarKind]
    VAR_KIND_DATA: _ClassVar[VarKind]
    VAR_KIND_PARAMETER: _ClassVar[VarKind]
    VAR_KIND_STATE: _ClassVar[VarKind]
    VAR_KIND_ARGUMENT: _ClassVar[VarKind]

class DType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DTYPE_UNSPECIFIED: _ClassVar[DType]
    DTYPE_BOOL: _ClassVar[DType]
    DTYPE_I8: _ClassVar[DType]
    DTYPE_I16: _ClassVar[DType]
    DTYPE_I32: _ClassVar[DType]
    DTYPE_I64: _ClassVar[DType]
    DTYPE_U8: _ClassVar[DType]
    DTYPE_U16: _ClassVar[DType]
    DTYPE_U32: _ClassVar[DType]
    DTYPE_U64: _ClassVar[DType]
    DTYPE_F16: _ClassVar[DType]
    DTYPE_BF16: _ClassVar[DType]
    DTYPE_F32: _ClassVar[DType]
    DTYPE_F64: _ClassVar[DType]
    DTYPE_C64: _ClassVar[DType]
    DTYPE_C128: _ClassVar[DType]
    DTYPE_F8E4M3FN: _ClassVar[DType]
    DTYPE_F8E4M3FNUZ: _ClassVar[DType]
    DTYPE_F8E5M2: _ClassVar[DType]
    DTYPE_F8E5M2FNUZ: _ClassVar[DType]
    DTYPE_F8E8M0FNU: _ClassVar[DType]
    DTYPE_INT2: _ClassVar[DType]
    DTYPE_INT4: _ClassVar[DType]
    DTYPE_UINT2: _ClassVar[DType]
    DTYPE_UINT4: _ClassVar[DType]
    DTYPE_F4E2M1FN: _ClassVar[DType]
VAR_KIND_UNSPECIFIED: VarKind
VAR_KIND_VALUE: VarKind
VAR_KIND_DATA: VarKind
VAR_KIND_PARAMETER: VarKind
VAR_KIND_STATE: VarKind
VAR_KIND_ARGUMENT: VarKind
DTYPE_UNSPECIFIED: DType
DTYPE_BOOL: DType
DTYPE_I8: DType
DTYPE_I16: DType
DTYPE_I32: DType
DTYPE_I64: DType
DTYPE_U8: DType
DTYPE_U16: DType
DTYPE_U32: DType
DTYPE_U64: DType
DTYPE_F16: DType
DTYPE_BF16: DType
DTYPE_F32: DType
DTYPE_F64: DType
DTYPE_C64: DType
DTYPE_C128: DType
DTYPE_F8E4M3FN: DType
DTYPE_F8E4M3FNUZ: DType
DTYPE_F8E5M2: DType
DTYPE_F8E5M2FNUZ: DType
DTYPE_F8E8M0FNU: DType
DTYPE_INT2: DType
DTYPE_INT4: DType
DTYPE_UINT2: DType
DTYPE_UINT4: DType
DTYPE_F4E2M1FN: DType

class ProgramDesc(_message.Message):
    __slots__ = ("format", "format_version", "producer", "main", "updates", "startup", "locations", "op_versions", "op_modules", "derivations", "complete")
    class OpVersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class OpModulesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    FORMAT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    MAIN_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    STARTUP_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    OP_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    OP_MODULES_FIELD_NUMBER: _ClassVar[int]
    DERIVATIONS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    format: str
    format_version: int
    producer: str
    main: BlockDesc
    updates: _containers.RepeatedCompositeFieldContainer[UpdateDesc]
    startup: ProgramDesc
    locations: _containers.RepeatedCompositeFieldContainer[LocationDesc]
    op_versions: _containers.ScalarMap[str, int]
    op_modules: _containers.ScalarMap[str, str]
    derivations: _containers.RepeatedCompositeFieldContainer[DerivationDesc]
    complete: bool
    def __init__(self, format: _Optional[str] = ..., format_version: _Optional[int] = ..., producer: _Optional[str] = ..., main: _Optional[_Union[BlockDesc, _Mapping]] = ..., updates: _Optional[_Iterable[_Union[UpdateDesc, _Mapping]]] = ..., startup: _Optional[_Union[ProgramDesc, _Mapping]] = ..., locations: _Optional[_Iterable[_Union[LocationDesc, _Mapping]]] = ..., op_versions: _Optional[_Mapping[str, int]] = ..., op_modules: _Optional[_Mapping[str, str]] = ..., derivations: _Optional[_Iterable[_Union[DerivationDesc, _Mapping]]] = ..., complete: bool = ...) -> None: ...

class UpdateDesc(_message.Message):
    __slots__ = ("persistable", "value")
    PERSISTABLE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    persistable: str
    value: str
    def __init__(self, persistable: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class DerivationDesc(_message.Message):
    __slots__ = ("function", "targets", "inputs", "every", "seeds", "results", "updates", "states", "ends", "unread", "optimizer", "inner", "edited", "earlier_names")
    class EarlierNamesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    SEEDS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    OPTIMIZER_FIELD_NUMBER: _ClassVar[int]
    INNER_FIELD_NUMBER: _ClassVar[int]
    EDITED_FIELD_NUMBER: _ClassVar[int]
    EARLIER_NAMES_FIELD_NUMBER: _ClassVar[int]
    function: str
    targets: _containers.RepeatedScalarFieldContainer[str]
    inputs: _containers.RepeatedScalarFieldContainer[str]
    every: bool
    seeds: _containers.RepeatedScalarFieldContainer[str]
    results: _containers.RepeatedScalarFieldContainer[str]
    updates: _containers.RepeatedCompositeFieldContainer[UpdateDesc]
    states: _containers.RepeatedScalarFieldContainer[str]
    ends: _containers.RepeatedScalarFieldContainer[str]
    unread: _containers.RepeatedScalarFieldContainer[str]
    optimizer: AttrDesc
    inner: bool
    edited: bool
    earlier_names: _containers.ScalarMap[str, str]
    def __init__(self, function: _Optional[str] = ..., targets: _Optional[_Iterable[str]] = ..., inputs: _Optional[_Iterable[str]] = ..., every: bool = ..., seeds: _Optional[_Iterable[str]] = ..., results: _Optional[_Iterable[str]] = ..., updates: _Optional[_Iterable[_Union[UpdateDesc, _Mapping]]] = ..., states: _Optional[_Iterable[str]] = ..., ends: _Optional[_Iterable[str]] = ..., unread: _Optional[_Iterable[str]] = ..., optimizer: _Optional[_Union[AttrDesc, _Mapping]] = ..., inner: bool = ..., edited: bool = ..., earlier_names: _Optional[_Mapping[str, str]] = ...) -> None: ...

class LocationDesc(_message.Message):
    __slots__ = ("file", "line")
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    file: str
    line: int
    def __init__(self, file: _Optional[str] = ..., line: _Optional[int] = ...) -> None: ...

class BlockDesc(_message.Message):
    __slots__ = ("params", "results", "vars", "ops")
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    VARS_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    params: _containers.RepeatedScalarFieldContainer[str]
    results: _containers.RepeatedScalarFieldContainer[str]
    vars: _containers.RepeatedCompositeFieldContainer[VarDesc]
    ops: _containers.RepeatedCompositeFieldContainer[OpDesc]
    def __init__(self, params: _Optional[_Iterable[str]] = ..., results: _Optional[_Iterable[str]] = ..., vars: _Optional[_Iterable[_Union[VarDesc, _Mapping]]] = ..., ops: _Optional[_Iterable[_Union[OpDesc, _Mapping]]] = ...) -> None: ...

class VarDesc(_message.Message):
    __slots__ = ("name", "type", "kind", "trainable", "axes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TRAINABLE_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: TypeDesc
    kind: VarKind
    trainable: bool
    axes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[TypeDesc, _Mapping]] = ..., kind: _Optional[_Union[VarKind, str]] = ..., trainable: bool = ..., axes: _Optional[_Iterable[str]] = ...) -> None: ...

class TypeDesc(_message.Message):
    __slots__ = ("tensor", "list")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    tensor: TensorTypeDesc
    list: TensorTypeDesc
    def __init__(self, tensor: _Optional[_Union[TensorTypeDesc, _Mapping]] = ..., list: _Optional[_Union[TensorTypeDesc, _Mapping]] = ...) -> None: ...

class TensorTypeDesc(_message.Message):
    __slots__ = ("dtype", "shape")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    dtype: DType
    shape: _containers.RepeatedCompositeFieldContainer[SizeDesc]
    def __init__(self, dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[_Union[SizeDesc, _Mapping]]] = ...) -> None: ...

class SizeDesc(_message.Message):
    __slots__ = ("value", "expression")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    value: int
    expression: str
    def __init__(self, value: _Optional[int] = ..., expression: _Optional[str] = ...) -> None: ...

class OpDesc(_message.Message):
    __slots__ = ("type", "name", "inputs", "outputs", "attrs", "location")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    ATTRS_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    type: str
    name: str
    inputs: _containers.RepeatedCompositeFieldContainer[SlotDesc]
    outputs: _containers.RepeatedCompositeFieldContainer[SlotDesc]
    attrs: _containers.RepeatedCompositeFieldContainer[AttrDesc]
    location: int
    def __init__(self, type: _Optional[str] = ..., name: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[SlotDesc, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[SlotDesc, _Mapping]]] = ..., attrs: _Optional[_Iterable[_Union[AttrDesc, _Mapping]]] = ..., location: _Optional[int] = ...) -> None: ...

class SlotDesc(_message.Message):
    __slots__ = ("slot", "names")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    slot: str
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, slot: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class AttrDesc(_message.Message):
    __slots__ = ("name", "none", "boolean", "integer", "real", "text", "dtype", "size", "literal", "block", "list", "natural")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NONE_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    NATURAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    none: bool
    boolean: bool
    integer: int
    real: float
    text: str
    dtype: DType
    size: SizeDesc
    literal: LiteralDesc
    block: BlockDesc
    list: ListDesc
    natural: int
    def __init__(self, name: _Optional[str] = ..., none: bool = ..., boolean: bool = ..., integer: _Optional[int] = ..., real: _Optional[float] = ..., text: _Optional[str] = ..., dtype: _Optional[_Union[DType, str]] = ..., size: _Optional[_Union[SizeDesc, _Mapping]] = ..., literal: _Optional[_Union[LiteralDesc, _Mapping]] = ..., block: _Optional[_Union[BlockDesc, _Mapping]] = ..., list: _Optional[_Union[ListDesc, _Mapping]] = ..., natural: _Optional[int] = ...) -> None: ...

class ListDesc(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[AttrDesc]
    def __init__(self, items: _Optional[_Iterable[_Union[AttrDesc, _Mapping]]] = ...) -> None: ...

class LiteralDesc(_message.Message):
    __slots__ = ("dtype", "shape", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...
