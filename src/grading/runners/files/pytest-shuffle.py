"""Files in another order, and the tests in them: fixtures of a file are still made once."""

import os
import random


def pytest_collection_modifyitems(items):
    chance = random.Random(int(os.environ['ASSAY_SEED']))
    files = {}
    for item in items:
        files.setdefault(item.nodeid.split('::')[0], []).append(item)
    order = sorted(files)
    chance.shuffle(order)
    for name in order:
        chance.shuffle(files[name])
    items[:] = [item for name in order for item in files[name]]
