from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProgramDesc(_message.Message):
    __slots__ = ("blocks", "version")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[BlockDesc]
    version: Version
    def __init__(self, blocks: _Optional[_Iterable[_Union[BlockDesc, _Mapping]]] = ..., version: _Optional[_Union[Version, _Mapping]] = ...) -> None: ...

class Version(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class BlockDesc(_message.Message):
    __slots__ = ("idx", "parent_idx", "vars", "ops")
    IDX_FIELD_NUMBER: _ClassVar[int]
    PARENT_IDX_FIELD_NUMBER: _ClassVar[int]
    VARS_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    idx: int
    parent_idx: int
    vars: _containers.RepeatedCompositeFieldContainer[VarDesc]
    ops: _containers.RepeatedCompositeFieldContainer[OpDesc]
    def __init__(self, idx: _Optional[int] = ..., parent_idx: _Optional[int] = ..., vars: _Optional[_Iterable[_Union[VarDesc, _Mapping]]] = ..., ops: _Optional[_Iterable[_Union[OpDesc, _Mapping]]] = ...) -> None: ...

class VarDesc(_message.Message):
    __slots__ = ("name", "type", "persistable", "is_parameter", "stop_gradient")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    PERSISTABLE_FIELD_NUMBER: _ClassVar[int]
    IS_PARAMETER_FIELD_NUMBER: _ClassVar[int]
    STOP_GRADIENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: VarType
    persistable: bool
    is_parameter: bool
    stop_gradient: bool
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[VarType, _Mapping]] = ..., persistable: bool = ..., is_parameter: bool = ..., stop_gradient: bool = ...) -> None: ...

class VarType(_message.Message):
    __slots__ = ("type", "lod_tensor", "tensor_array")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    LOD_TENSOR_FIELD_NUMBER: _ClassVar[int]
    TENSOR_ARRAY_FIELD_NUMBER: _ClassVar[int]
    type: int
    lod_tensor: LoDTensorDesc
    tensor_array: LoDTensorDesc
    def __init__(self, type: _Optional[int] = ..., lod_tensor: _Optional[_Union[LoDTensorDesc, _Mapping]] = ..., tensor_array: _Optional[_Union[LoDTensorDesc, _Mapping]] = ...) -> None: ...

class LoDTensorDesc(_message.Message):
    __slots__ = ("tensor", "lod_level")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    LOD_LEVEL_FIELD_NUMBER: _ClassVar[int]
    tensor: TensorDesc
    lod_level: int
    def __init__(self, tensor: _Optional[_Union[TensorDesc, _Mapping]] = ..., lod_level: _Optional[int] = ...) -> None: ...

class TensorDesc(_message.Message):
    __slots__ = ("data_type", "dims")
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    DIMS_FIELD_NUMBER: _ClassVar[int]
    data_type: int
    dims: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, data_type: _Optional[int] = ..., dims: _Optional[_Iterable[int]] = ...) -> None: ...

class OpDesc(_message.Message):
    __slots__ = ("inputs", "outputs", "type", "attrs")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ATTRS_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[SlotDesc]
    outputs: _containers.RepeatedCompositeFieldContainer[SlotDesc]
    type: str
    attrs: _containers.RepeatedCompositeFieldContainer[AttrDesc]
    def __init__(self, inputs: _Optional[_Iterable[_Union[SlotDesc, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[SlotDesc, _Mapping]]] = ..., type: _Optional[str] = ..., attrs: _Optional[_Iterable[_Union[AttrDesc, _Mapping]]] = ...) -> None: ...

class SlotDesc(_message.Message):
    __slots__ = ("parameter", "arguments")
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    parameter: str
    arguments: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, parameter: _Optional[str] = ..., arguments: _Optional[_Iterable[str]] = ...) -> None: ...

class AttrDesc(_message.Message):
    __slots__ = ("name", "type", "i", "f", "s", "ints", "floats", "strings", "b", "bools", "block_idx", "l", "blocks_idx", "longs", "float64s", "var_name", "vars_name", "float64", "scalar", "scalars")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    I_FIELD_NUMBER: _ClassVar[int]
    F_FIELD_NUMBER: _ClassVar[int]
    S_FIELD_NUMBER: _ClassVar[int]
    INTS_FIELD_NUMBER: _ClassVar[int]
    FLOATS_FIELD_NUMBER: _ClassVar[int]
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    B_FIELD_NUMBER: _ClassVar[int]
    BOOLS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_IDX_FIELD_NUMBER: _ClassVar[int]
    L_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_IDX_FIELD_NUMBER: _ClassVar[int]
    LONGS_FIELD_NUMBER: _ClassVar[int]
    FLOAT64S_FIELD_NUMBER: _ClassVar[int]
    VAR_NAME_FIELD_NUMBER: _ClassVar[int]
    VARS_NAME_FIELD_NUMBER: _ClassVar[int]
    FLOAT64_FIELD_NUMBER: _ClassVar[int]
    SCALAR_FIELD_NUMBER: _ClassVar[int]
    SCALARS_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: int
    i: int
    f: float
    s: bytes
    ints: _containers.RepeatedScalarFieldContainer[int]
    floats: _containers.RepeatedScalarFieldContainer[float]
    strings: _containers.RepeatedScalarFieldContainer[bytes]
    b: bool
    bools: _containers.RepeatedScalarFieldContainer[bool]
    block_idx: int
    l: int
    blocks_idx: _containers.RepeatedScalarFieldContainer[int]
    longs: _containers.RepeatedScalarFieldContainer[int]
    float64s: _containers.RepeatedScalarFieldContainer[float]
    var_name: str
    vars_name: _containers.RepeatedScalarFieldContainer[str]
    float64: float
    scalar: ScalarDesc
    scalars: _containers.RepeatedCompositeFieldContainer[ScalarDesc]
    def __init__(self, name: _Optional[str] = ..., type: _Optional[int] = ..., i: _Optional[int] = ..., f: _Optional[float] = ..., s: _Optional[bytes] = ..., ints: _Optional[_Iterable[int]] = ..., floats: _Optional[_Iterable[float]] = ..., strings: _Optional[_Iterable[bytes]] = ..., b: bool = ..., bools: _Optional[_Iterable[bool]] = ..., block_idx: _Optional[int] = ..., l: _Optional[int] = ..., blocks_idx: _Optional[_Iterable[int]] = ..., longs: _Optional[_Iterable[int]] = ..., float64s: _Optional[_Iterable[float]] = ..., var_name: _Optional[str] = ..., vars_name: _Optional[_Iterable[str]] = ..., float64: _Optional[float] = ..., scalar: _Optional[_Union[ScalarDesc, _Mapping]] = ..., scalars: _Optional[_Iterable[_Union[ScalarDesc, _Mapping]]] = ...) -> None: ...

class ScalarDesc(_message.Message):
    __slots__ = ("type", "b", "i", "r")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    B_FIELD_NUMBER: _ClassVar[int]
    I_FIELD_NUMBER: _ClassVar[int]
    R_FIELD_NUMBER: _ClassVar[int]
    type: int
    b: bool
    i: int
    r: float
    def __init__(self, type: _Optional[int] = ..., b: bool = ..., i: _Optional[int] = ..., r: _Optional[float] = ...) -> None: ...
