"""One packet as tshark showed it."""
import xml.etree.ElementTree

ERROR = 0x00800000  # severity of an expert info
OURS = ("tally.", "switchml.")


class Packet:
    """Values by name of the field, as often as it occurs."""

    def __init__(self, text):
        """text: its element in PDML. Each is parsed alone: the tree of thousands costs more than all else."""
        element = xml.etree.ElementTree.fromstring(text)
        self.fields = [(field.get("name"), field.get("show"), int(field.get("pos") or 0), int(field.get("size") or 0))
                       for field in element.iter("field")]
        self.protocols = [proto.get("name") for proto in element.iter("proto")]

    def names(self):
        return {field[0] for field in self.fields}

    def all(self, name):
        return [show for field, show, _, _ in self.fields if field == name]

    def one(self, name):
        shown = self.all(name)
        assert len(shown) == 1, f"{name} occurs {len(shown)} times: {shown}"
        return shown[0]

    def number(self, name):
        return int(self.one(name), 0)

    def place(self, name):
        """(offset in the frame, bytes)"""
        places = {(pos, size) for field, _, pos, size in self.fields if field == name}
        assert len(places) == 1, f"{name} lies in {places}"
        return places.pop()

    def remarks(self):
        """Names of our expert infos: each is the first field in a tree of its own."""
        return {inner[0] for tree, inner in zip(self.fields, self.fields[1:])
                if tree[0] == "_ws.expert" and inner[0].startswith(OURS)}

    def has_error(self):
        return str(ERROR) in self.all("_ws.expert.severity")

    def failed(self):
        """The dissector itself did: an error in Lua, or a read behind the end of the packet. (The protocol
        _ws.malformed alone is also in packets that we call malformed.)"""
        ours = {"tally", "switchml"} & set(self.protocols)
        return "_ws.lua.error" in self.names() or bool(ours) and "_ws.malformed.expert" in self.names()
