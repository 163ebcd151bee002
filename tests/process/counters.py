"""The counters that tallyd prints, taken apart."""
import re


def number(text):
    """1,234 as 1234; other words stay words."""
    plain = text.replace(",", "")
    return int(plain) if plain.isdigit() else text


class Counters:
    """ports[name][column], cores[line][core], jobs[name][column], slots[job name][column], server[core][column],
    drops[job name][reason]; '' is 'of no job'. impaired[port name, direction][column]."""

    def __init__(self, text):
        self.text = text
        self.ports, self.cores, self.jobs, self.drops = {}, {}, {}, {}
        self.slots, self.server, self.impaired = {}, {}, {}
        tables = {"port": self.ports, "job": self.jobs, "shared slots": self.slots, "server": self.server}
        for block in text.split("\n\n"):
            rows = [re.split(r"  +", line) for line in block.strip("\n").split("\n")]
            header = rows[0]
            if header[0] in tables:
                tables[header[0]].update((row[0], dict(zip(header[1:], map(number, row[1:])))) for row in rows[1:])
            elif header[0] == "impaired":
                for row in rows[1:]:
                    self.impaired[row[0], row[1]] = dict(zip(header[2:], map(number, row[2:])))
            elif header[0] == "core (CPU)":
                for row in rows[1:]:
                    self.cores.setdefault(row[0], []).extend(map(number, row[1:]))
        self.packet_buffers = number(re.search(r"([\d,]+) packet buffers", text).group(1))
        for job, reasons in re.findall(r"^dropped(?: of job ([^:]+)|, of no job): (.*)$", text, re.M):
            self.drops[job] = {word: number(count) for word, count in re.findall(r"(\w+) ([\d,]+)", reasons)}

    def core(self, line):
        """Sum over the cores; 0 for a line that is left out."""
        return sum(self.cores.get(line, [0]))

    def port(self, column):
        return sum(port[column] for port in self.ports.values())


def last_of(output):
    """The newest complete report in tallyd's stdout; None if there is none."""
    reports = re.findall(r"^tallyd \S+: counters after .*?(?=^tallyd |\Z)", output, re.M | re.S)
    return Counters(reports[-1]) if reports else None


def count_of(output):
    """How many reports there are."""
    return len(re.findall(r"^tallyd \S+: counters after ", output, re.M))
