"""Parses JUnit XML. Refuses document types, entity declarations and deep nesting, because reports are untrusted."""

import re
from xml.parsers import expat

DEPTH_MAX = 100
MESSAGE_CHARACTERS = 4000
STATUSES = {'failure': 'failed', 'error': 'errored', 'skipped': 'skipped'}
# Statuses from the best to the worst. The worst of a test counts.
RANKS = ('passed', 'skipped', 'failed', 'errored')
# Control characters that XML forbids. Runners copy them from the output of tests into the report.
CONTROL = re.compile(rb'[\x01-\x08\x0b\x0c\x0e-\x1f]')


class Reader:
    """Collects test cases, as (name, status, message), from the events of the XML parser."""

    def __init__(self):
        self.cases = []
        self.suites = []
        self.path = []
        self.case = None
        self.is_in_message = False
        self.printed_statuses = []

    def start(self, tag, attributes):
        if len(self.path) >= DEPTH_MAX:
            raise ValueError('its elements are nested too deeply')
        self.path.append(tag)
        if tag in ('testsuite', 'testsuites'):
            self.suites.append((attributes, len(self.cases)))
        elif tag == 'testcase':
            if self.case is not None:
                raise ValueError('a test case contains another one')
            self.case = {'name': name_of(attributes), 'status': 'passed', 'message': '', 'printed_status': attributes.get('status')}
        elif self.case is not None and tag in STATUSES:
            if RANKS.index(STATUSES[tag]) > RANKS.index(self.case['status']):
                self.case['status'] = STATUSES[tag]
            self.case['message'] += attributes.get('message', '') + '\n'
            self.is_in_message = True

    def text(self, text):
        if self.is_in_message and self.case is not None and len(self.case['message']) < MESSAGE_CHARACTERS:
            self.case['message'] += text

    def end(self, tag):
        self.path.pop()
        if tag == 'testcase':
            self.cases.append((self.case['name'], self.case['status'], self.case['message'].strip()))
            self.printed_statuses.append(self.case['printed_status'])
            self.case = None
        elif tag in STATUSES:
            self.is_in_message = False
        elif tag in ('testsuite', 'testsuites'):
            attributes, first = self.suites.pop()
            require_counts(attributes, self.cases[first:])


def name_of(attributes):
    class_name = attributes.get('classname') or attributes.get('class') or ''
    name = attributes['name']
    return f'{class_name}::{name}' if class_name and class_name != name else name


def require_counts(attributes, cases):
    """Raises ValueError if the counts of a suite contradict its tests."""
    def total(*names):
        return sum(int(attributes.get(name) or 0) for name in names)

    failed_count = sum(status in ('failed', 'errored') for _, status, _ in cases)
    if not any(name in attributes for name in ('failures', 'errors')):
        return
    if (total('failures', 'errors') > 0) != (failed_count > 0):
        raise ValueError('its counts contradict its tests')
    if failed_count == 0 and 'tests' in attributes and total('tests') != len(cases):
        raise ValueError('it counts other tests than it names')


def refuse_declaration(*_):
    raise ValueError('it has a document type')


def read_junit(content):
    return parse(content).cases


def read_ctest(content):
    """Parses the report of CTest: `run` means passed, a test that could not be started is marked as skipped, and a disabled
    test is not marked at all."""
    reader = parse(content)
    return [(name, ctest_status(status, message, printed_status), message)
            for (name, status, message), printed_status in zip(reader.cases, reader.printed_statuses)]


def ctest_status(status, message, printed_status):
    if printed_status == 'notrun' and not message.startswith('SKIP_'):
        return 'errored'
    return 'skipped' if status == 'passed' and printed_status != 'run' else status


def parse(content):
    if b'\0' in content:
        raise ValueError('it has zero bytes')
    reader, parser = Reader(), expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = refuse_declaration
    parser.EntityDeclHandler = refuse_declaration
    try:
        parser.Parse(CONTROL.sub(b'', content), True)
    except expat.ExpatError as trouble:
        raise ValueError(str(trouble)) from None
    return reader
