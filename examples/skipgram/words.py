"""Words and their neighbours, drawn from a text: what both programs here learn from (Mikolov et al. 2013)."""
import collections
import pathlib
import re

import torch

TEXTS = pathlib.Path("/usr/share/common-licenses")
LEAST, WINDOW, NEGATIVES, WIDTH = 5, 4, 8, 64


def read(file=None):
    """The text as numbers of words, the most frequent word first; the words. Without a file: the licences that every Debian
    has."""
    files = [pathlib.Path(file)] if file else [path for path in sorted(TEXTS.iterdir()) if not path.is_symlink()]
    spoken = re.findall(r"[a-z]{2,}", " ".join(path.read_text(errors="replace") for path in files).lower())
    words = [word for word, times in sorted(collections.Counter(spoken).items(), key=lambda one: (-one[1], one[0])) if times >= LEAST]
    number = {word: i for i, word in enumerate(words)}
    return torch.tensor([number[word] for word in spoken if word in number]), words


class Pairs:
    """Of a rank: others at each."""

    def __init__(self, text, batch, rank):
        self.text, self.batch = text, batch
        self.often = torch.bincount(text).float().pow(0.75)
        self.chance = torch.Generator().manual_seed(rank + 1)

    def draw(self):
        """Words, a neighbour of each, and NEGATIVES others of each."""
        places = torch.randint(WINDOW, len(self.text) - WINDOW, (self.batch,), generator=self.chance)
        aside = torch.randint(1, WINDOW + 1, (self.batch,), generator=self.chance)
        aside *= torch.randint(2, (self.batch,), generator=self.chance) * 2 - 1
        others = torch.multinomial(self.often, self.batch * NEGATIVES, replacement=True, generator=self.chance)
        return self.text[places], self.text[places + aside], others.view(-1, NEGATIVES)


def losses_of(centre, beside, others):
    """Of each pair, by the vectors of its words."""
    near = (centre * beside).sum(1)
    far = torch.einsum("bw,bnw->bn", centre, others)
    return -(torch.nn.functional.logsigmoid(near) + torch.nn.functional.logsigmoid(-far).sum(1))


def neighbours(vectors, words, some):
    """Of each of some words, the three whose vectors are closest."""
    unit = torch.nn.functional.normalize(vectors)
    return {word: [words[i] for i in (unit @ unit[words.index(word)]).topk(4).indices.tolist()[1:]] for word in some if word in words}
