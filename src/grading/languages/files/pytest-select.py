"""Runs only the tests whose ids in the JUnit report are listed. Fixtures of other tests are not set up."""

import json
import os
import re

# The grader replaces parts of an id that differ from run to run.
PLACEHOLDER = re.compile(r'<(?:uuid|address|port|path)>')

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'selected-tests.json'), encoding='utf-8') as file:
    SELECTED = set(json.load(file))

PATTERNS = [
    re.compile('.*'.join(map(re.escape, PLACEHOLDER.split(test)))) for test in SELECTED if PLACEHOLDER.search(test)
]


def report_id(nodeid):
    """Returns the class name and the name that pytest writes into its report."""
    path, bracket, parameters = nodeid.partition('[')
    parts = path.split('::')
    class_name = '.'.join([re.sub(r'\.py$', '', parts[0].replace('/', '.')), *parts[1:-1]])
    return ' '.join(f'{class_name}::{parts[-1]}{bracket}{parameters}'.split())


def is_selected(item):
    test = report_id(item.nodeid)
    return test in SELECTED or any(pattern.fullmatch(test) for pattern in PATTERNS)


def pytest_collection_modifyitems(config, items):
    dropped = [item for item in items if not is_selected(item)]
    items[:] = [item for item in items if is_selected(item)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
