"""Shuffles the test files, and the tests within each file. Tests of a file stay together, so its fixtures are set up once."""

import os
import random


def pytest_collection_modifyitems(items):
    generator = random.Random(int(os.environ['ASSAY_SEED']))
    files = {}
    for item in items:
        files.setdefault(item.nodeid.split('::')[0], []).append(item)
    order = sorted(files)
    generator.shuffle(order)
    for name in order:
        generator.shuffle(files[name])
    items[:] = [item for name in order for item in files[name]]
