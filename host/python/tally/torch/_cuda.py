"""Tensors on a GPU, which the box's packets are not made of: copies to and from pinned memory, on a stream of their own
beside those that compute."""
import torch


class Copies:
    """Homes of tensors in pinned memory. Torch keeps what is freed there for the next one, and until the copies of its
    stream are over."""

    def __init__(self):
        self._streams = {}

    def bring(self, tensor):
        """(home, event): the home has the tensor's values when the event is over."""
        stream = self._stream(tensor.device)
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
        home = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        with torch.cuda.stream(stream):
            home.copy_(tensor.detach(), non_blocking=True)
        tensor.record_stream(stream)  # its memory is nobody else's until then
        # Blocking: who waits for it sleeps, beside a worker that needs the CPU.
        return home, stream.record_event(torch.cuda.Event(blocking=True))

    def bring_back(self, home, tensor):
        """What is on the current stream behind it sees the home's values in the tensor."""
        stream = self._stream(tensor.device)
        with torch.cuda.stream(stream):
            tensor.copy_(home, non_blocking=True)
        torch.cuda.current_stream(tensor.device).wait_stream(stream)

    def _stream(self, device):
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return self._streams[device]
