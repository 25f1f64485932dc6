"""JUnit's XML as runners write it. No document type, no entities of its own, no depth without end."""

import re
from xml.parsers import expat

DEPTH_MAX = 100
MESSAGE_LETTERS = 4000
STATUSES = {'failure': 'failed', 'error': 'errored', 'skipped': 'skipped'}
RANKS = ('passed', 'skipped', 'failed', 'errored')
# Runners that print what a test wrote into the report forget that XML has no place for these.
CONTROL = re.compile(rb'[\x01-\x08\x0b\x0c\x0e-\x1f]')


class Reader:
    def __init__(self):
        self.cases = []
        self.suites = []
        self.path = []
        self.case = None
        self.hears = False
        self.said = []

    def start(self, tag, attributes):
        if len(self.path) >= DEPTH_MAX:
            raise ValueError('it is too deep')
        self.path.append(tag)
        if tag in ('testsuite', 'testsuites'):
            self.suites.append((attributes, len(self.cases)))
        elif tag == 'testcase':
            if self.case is not None:
                raise ValueError('a test in a test')
            self.case = {'name': name_of(attributes), 'status': 'passed', 'message': '', 'said': attributes.get('status')}
        elif self.case is not None and tag in STATUSES:
            if RANKS.index(STATUSES[tag]) > RANKS.index(self.case['status']):
                self.case['status'] = STATUSES[tag]
            self.case['message'] += attributes.get('message', '') + '\n'
            self.hears = True

    def text(self, text):
        if self.hears and self.case is not None and len(self.case['message']) < MESSAGE_LETTERS:
            self.case['message'] += text

    def end(self, tag):
        self.path.pop()
        if tag == 'testcase':
            self.cases.append((self.case['name'], self.case['status'], self.case['message'].strip()))
            self.said.append(self.case['said'])
            self.case = None
        elif tag in STATUSES:
            self.hears = False
        elif tag in ('testsuite', 'testsuites'):
            attributes, first = self.suites.pop()
            check(attributes, self.cases[first:])


def name_of(attributes):
    place = attributes.get('classname') or attributes.get('class') or ''
    name = attributes['name']
    return f'{place}::{name}' if place and place != name else name


def check(attributes, cases):
    """What a suite says of itself must be what its tests say."""
    def said(*names):
        return sum(int(attributes.get(name) or 0) for name in names)

    bad = sum(status in ('failed', 'errored') for _, status, _ in cases)
    if not any(name in attributes for name in ('failures', 'errors')):
        return
    if (said('failures', 'errors') > 0) != (bad > 0):
        raise ValueError('its counts are not those of its tests')
    if bad == 0 and 'tests' in attributes and said('tests') != len(cases):
        raise ValueError('it counts other tests than it names')


def refuse(*_):
    raise ValueError('it has a document type')


def read_junit(content):
    return parse(content).cases


def read_ctest(content):
    """It says `run` of what passed. What it could not start it calls skipped; what is disabled it does not mark at all."""
    reader = parse(content)
    return [(name, ctest_status(status, message, said), message)
            for (name, status, message), said in zip(reader.cases, reader.said)]


def ctest_status(status, message, said):
    if said == 'notrun' and not message.startswith('SKIP_'):
        return 'errored'
    return 'skipped' if status == 'passed' and said != 'run' else status


def parse(content):
    if b'\0' in content:
        raise ValueError('it has zero bytes')
    reader, parser = Reader(), expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(CONTROL.sub(b'', content), True)
    except expat.ExpatError as trouble:
        raise ValueError(str(trouble)) from None
    return reader
