"""Runs only the tests whose ids of the JUnit report are listed. Others are not even set up."""

import json
import os
import re

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'selected-tests.json'), encoding='utf-8') as file:
    SELECTED = set(json.load(file))


def report_id(nodeid):
    """The class name and the name that pytest writes into its report."""
    path, bracket, parameters = nodeid.partition('[')
    parts = path.split('::')
    place = '.'.join([re.sub(r'\.py$', '', parts[0].replace('/', '.')), *parts[1:-1]])
    return ' '.join(f'{place}::{parts[-1]}{bracket}{parameters}'.split())


def pytest_collection_modifyitems(config, items):
    dropped = [item for item in items if report_id(item.nodeid) not in SELECTED]
    items[:] = [item for item in items if report_id(item.nodeid) in SELECTED]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
