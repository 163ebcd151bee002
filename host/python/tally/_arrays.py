"""Where an array's memory lies, and what it holds: numpy arrays, torch tensors on the CPU, anything with a buffer."""
import sys
import typing

FLOAT32, INT32, FLOAT16, BFLOAT16 = range(4)  # tally_type of tally.h
_NAMES = ("float32", "int32", "float16", "bfloat16")
_FORMATS = {"f": FLOAT32, "i": INT32, "e": FLOAT16}
_ITEM_BYTES = (4, 4, 2, 2)


class Memory(typing.NamedTuple):
    """count elements of a type from an address on. kept: what keeps the memory alive."""
    address: int
    count: int
    type: int
    kept: object

    @property
    def bytes(self):
        return self.count * _ITEM_BYTES[self.type]


def is_tensor(array):
    """A torch tensor? Without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def memory(array, writable=True, types=None):
    """Memory of an array of one of these types, or of any that can be summed; TypeError says what is wrong with it."""
    if is_tensor(array):
        return _tensor(array, types or (FLOAT32, INT32, FLOAT16, BFLOAT16))
    types = types or (FLOAT32, INT32, FLOAT16)
    view = _view(array, writable)
    code = _FORMATS.get(view.format.lstrip("@="))
    if code not in types or view.itemsize != _ITEM_BYTES[code]:
        raise TypeError(f"an array of {_any_of(types)} is needed, this one holds {getattr(array, 'dtype', view.format)}")
    return Memory(_address(view), view.nbytes // view.itemsize, code, view)


def raw(array, writable=True):
    """(address, bytes, kept) of an array of anything."""
    if is_tensor(array):
        _look_at(array)
        return array.data_ptr(), array.numel() * array.element_size(), array
    view = _view(array, writable)
    return _address(view), view.nbytes, view


def _any_of(types):
    names = [_NAMES[each] for each in types]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _view(array, writable):
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(f"an array is needed (numpy, torch, or anything with a buffer), not {type(array).__name__}") from None
    if writable and view.readonly:
        raise TypeError("the array is read-only, and its sums go there; give out=, or a copy")
    if not view.c_contiguous:
        raise TypeError(f"the array is not contiguous: shape {view.shape}, strides {view.strides}; "
                        "numpy.ascontiguousarray() makes a copy that is")
    return view


def _address(view):
    # The one way that works for read-only memory too.
    import numpy  # pylint: disable=import-outside-toplevel
    return numpy.asarray(view).__array_interface__["data"][0] if view.nbytes else 0


def _look_at(tensor):
    if tensor.device.type != "cpu":
        raise TypeError(f"the tensor is on {tensor.device}; sums are made of memory of the CPU: tensor.cpu(), "
                        "or tally.torch, which copies")
    if not tensor.is_contiguous():
        raise TypeError(f"the tensor is not contiguous: shape {tuple(tensor.shape)}, strides {tensor.stride()}; "
                        "tensor.contiguous() makes a copy that is")


def _tensor(tensor, types):
    import torch  # pylint: disable=import-outside-toplevel
    code = {torch.float32: FLOAT32, torch.int32: INT32, torch.float16: FLOAT16,
            torch.bfloat16: BFLOAT16}.get(tensor.dtype)
    if code not in types:
        raise TypeError(f"a tensor of {_any_of(types)} is needed, this one holds {tensor.dtype}")
    _look_at(tensor)
    return Memory(tensor.data_ptr(), tensor.numel(), code, tensor)
