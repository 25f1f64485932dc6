"""Parses the output of Rust's test programs. The stable compiler has no report format, so the printed counts are verified."""

import re

PROGRAM = re.compile(r'^\s+Running (?:unittests )?(\S+) \((?:\S*/)?([^/\s]+)-[0-9a-f]{16}\)$')
DOC_TESTS = re.compile(r'^\s+Doc-tests (\S+)$')
BEGIN = re.compile(r'^running (\d+) tests?$')
TEST = re.compile(r'^test (.+?)(?: - should panic)?(?: - compile(?: fail)?)? \.\.\. (ok|FAILED|ignored)(?:, .*)?$')
END = re.compile(
    r'^test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured; (\d+) filtered out')
FAILURE = re.compile(r'^---- (.+) stdout ----$')
STATUSES = {'ok': 'passed', 'FAILED': 'failed', 'ignored': 'skipped'}
NOT_COMPILED = re.compile(r'^error: could not compile `([^`]+)`(?: \((.+?)\))?(?: due to .*)?$')
MESSAGE_CHARACTERS = 4000


class TestProgram:
    """The tests of one test program, from its output."""

    def __init__(self, program, expected):
        self.program, self.expected = program, expected
        self.tests, self.messages = [], {}
        self.is_in_failures, self.failed_test = False, None

    def add_line(self, line):
        if self.is_in_failures:
            self.add_failure_line(line)
        elif line == 'failures:':
            self.is_in_failures = True
        elif found := TEST.match(line):
            self.tests.append((found[1], STATUSES[found[2]]))

    def add_failure_line(self, line):
        """Collects the output of failed tests, which is untrusted and printed between the list of tests and the result."""
        if found := FAILURE.match(line):
            self.failed_test = found[1]
        elif self.failed_test is not None and len(self.messages.get(self.failed_test, '')) < MESSAGE_CHARACTERS:
            self.messages[self.failed_test] = self.messages.get(self.failed_test, '') + line + '\n'

    def close(self, end):
        count = {status: sum(found == status for _, found in self.tests) for status in STATUSES.values()}
        printed = {'passed': int(end[2]), 'failed': int(end[3]), 'skipped': int(end[4])}
        if count != printed or len(self.tests) != self.expected:
            raise ValueError(f'{self.program} counts other tests than it names')
        if (end[1] == 'FAILED') != (printed['failed'] > 0):
            raise ValueError(f'{self.program} contradicts itself')
        return [(f'{self.program}::{name}', status, self.messages.get(name, '').strip()) for name, status in self.tests]


def read_libtest(content):
    """Returns the cases of all test programs. A program that does not compile is one errored case."""
    cases, program, open_program, errors = [], None, None, ''
    for line in content.decode('utf-8', 'replace').split('\n'):
        line = line.rstrip('\r')
        if open_program is not None:
            if end := END.match(line):
                cases += open_program.close(end)
                open_program = None
            else:
                open_program.add_line(line)
        elif found := PROGRAM.match(line):
            program, errors = f'{found[2]} {found[1]}', ''
        elif found := DOC_TESTS.match(line):
            program = f'{found[1]} documentation'
        elif program is not None and (found := BEGIN.match(line)):
            open_program = TestProgram(program, int(found[1]))
        elif found := NOT_COMPILED.match(line):
            cases.append((' '.join(filter(None, found.groups())), 'errored', errors))
            errors = ''
        elif (errors or line.startswith('error')) and len(errors) < MESSAGE_CHARACTERS:
            errors += line + '\n'
    if open_program is not None:
        raise ValueError(f'{open_program.program} has no end')
    return cases
