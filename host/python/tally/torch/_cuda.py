"""Tensors on a GPU, which the box's packets are not made of: copies to and from pinned memory, on a stream of their own
beside those that compute."""
import collections

import torch


class Copies:
    """Homes of tensors in pinned memory, kept for the next of their size. All that touches one is on its device's stream
    of copies, and so in order."""

    def __init__(self):
        self._streams, self._homes = {}, collections.defaultdict(list)

    def bring(self, tensor):
        """(home, event): the home has the tensor's values when the event is over."""
        stream = self._stream(tensor.device)
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
        home = self._home(tensor)
        with torch.cuda.stream(stream):
            home.copy_(tensor, non_blocking=True)
        tensor.record_stream(stream)  # its memory is nobody else's until then
        return home, stream.record_event()

    def bring_back(self, home, tensor):
        """What is on the current stream behind it sees the home's values in the tensor."""
        stream = self._stream(tensor.device)
        with torch.cuda.stream(stream):
            tensor.copy_(home, non_blocking=True)
        torch.cuda.current_stream(tensor.device).wait_stream(stream)
        self._homes[self._kind(tensor)].append(home)

    def _stream(self, device):
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return self._streams[device]

    def _home(self, tensor):
        kept = self._homes[self._kind(tensor)]
        try:
            return kept.pop()
        except IndexError:
            return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)

    @staticmethod
    def _kind(tensor):
        return tensor.device, tensor.dtype, tuple(tensor.shape)
