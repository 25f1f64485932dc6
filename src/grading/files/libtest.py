"""What Rust's test programs print. There is no other report on the stable compiler, so every line is counted again."""

import re

PROGRAM = re.compile(r'^\s+Running (?:unittests )?(\S+) \((?:\S*/)?([^/\s]+)-[0-9a-f]{16}\)$')
DOCUMENTS = re.compile(r'^\s+Doc-tests (\S+)$')
BEGIN = re.compile(r'^running (\d+) tests?$')
TEST = re.compile(r'^test (.+?)(?: - should panic)?(?: - compile(?: fail)?)? \.\.\. (ok|FAILED|ignored)(?:, .*)?$')
END = re.compile(
    r'^test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured; (\d+) filtered out')
FAILURE = re.compile(r'^---- (.+) stdout ----$')
STATUSES = {'ok': 'passed', 'FAILED': 'failed', 'ignored': 'skipped'}
UNMADE = re.compile(r'^error: could not compile `([^`]+)`(?: \((.+?)\))?(?: due to .*)?$')
MESSAGE_LETTERS = 4000


class Block:
    """The tests of one program."""

    def __init__(self, place, expected):
        self.place, self.expected = place, expected
        self.tests, self.messages = [], {}
        self.is_telling, self.told = False, None

    def hear(self, line):
        if self.is_telling:
            self.tell(line)
        elif line == 'failures:':
            self.is_telling = True
        elif found := TEST.match(line):
            self.tests.append((found[1], STATUSES[found[2]]))

    def tell(self, line):
        """Between the tests and the result stands what failed tests printed, which may look like anything."""
        if found := FAILURE.match(line):
            self.told = found[1]
        elif self.told is not None and len(self.messages.get(self.told, '')) < MESSAGE_LETTERS:
            self.messages[self.told] = self.messages.get(self.told, '') + line + '\n'

    def close(self, end):
        count = {status: sum(found == status for _, found in self.tests) for status in STATUSES.values()}
        said = {'passed': int(end[2]), 'failed': int(end[3]), 'skipped': int(end[4])}
        if count != said or len(self.tests) != self.expected:
            raise ValueError(f'{self.place} counts other tests than it names')
        if (end[1] == 'FAILED') != (said['failed'] > 0):
            raise ValueError(f'{self.place} contradicts itself')
        return [(f'{self.place}::{name}', status, self.messages.get(name, '').strip()) for name, status in self.tests]


def read_libtest(content):
    """A program that could not be compiled counts as an error."""
    cases, place, block, said = [], None, None, ''
    for line in content.decode('utf-8', 'replace').split('\n'):
        line = line.rstrip('\r')
        if block is not None:
            if end := END.match(line):
                cases += block.close(end)
                block = None
            else:
                block.hear(line)
        elif found := PROGRAM.match(line):
            place, said = f'{found[2]} {found[1]}', ''
        elif found := DOCUMENTS.match(line):
            place = f'{found[1]} documentation'
        elif place is not None and (found := BEGIN.match(line)):
            block = Block(place, int(found[1]))
        elif found := UNMADE.match(line):
            cases.append((' '.join(filter(None, found.groups())), 'errored', said))
            said = ''
        elif (said or line.startswith('error')) and len(said) < MESSAGE_LETTERS:
            said += line + '\n'
    if block is not None:
        raise ValueError(f'{block.place} has no end')
    return cases
