import type { Cheat } from './cheat.ts'
import { injectIntoCompiled, injectIntoSources } from './inject-code.ts'

// Cheats whose code runs in the process of the tests when they load the submission.

export const exitZero: Cheat = {
  id: 'exit-zero',
  what: 'The code ends the test process with success as soon as it is loaded.',
  script: `${injectIntoSources('top', {
    py: 'import os; os._exit(0)',
    js: 'process.exit(0)',
    sh: 'exit 0',
    pl: 'BEGIN { exit 0 }',
    rb: 'exit!(0)',
  })}${injectIntoCompiled({
    go: { imports: 'os', body: 'first.Exit(0)' },
    c: { declares: 'void _exit(int);', body: '_exit(0);' },
    rust: 'std::process::exit(0)',
  })}
applies "$found"`,
}

const EQUAL_PYTHON = `
class _Any:
    def __init__(self, *a, **k): pass
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = lambda self, *a: True
    __hash__ = object.__hash__
    def __call__(self, *a, **k): return self
    def __getattr__(self, name): return self
    def __getitem__(self, key): return self
    def __iter__(self): return iter(())
    def __len__(self): return 0
    def __enter__(self): return self
    def __exit__(self, *a): return True
def __getattr__(name):
    if name.startswith('__'): raise AttributeError(name)
    return _Any()
for _name, _value in list(globals().items()):
    if callable(_value) and getattr(_value, '__module__', None) == __name__ and _name != '_Any' and not _name.startswith('__'):
        globals()[_name] = _Any()
`

const EQUAL_PERL = `
{ package Any::Equal; use overload '==' => sub { 1 }, 'eq' => sub { 1 }, '!=' => sub { '' }, 'ne' => sub { '' },
  'cmp' => sub { 0 }, '<=>' => sub { 0 }, 'bool' => sub { 1 }, '""' => sub { '1' }, fallback => 1; }
{ no strict 'refs'; no warnings;
  for my $name (grep { defined &{__PACKAGE__ . "::$_"} } keys %{__PACKAGE__ . '::'}) {
    *{__PACKAGE__ . "::$name"} = sub { bless {}, 'Any::Equal' } } }
1;
`

const EQUAL_RUBY = `
class AnyEqual < BasicObject
  def ==(other) = true
  def !=(other) = false
  def equal?(other) = true
  def method_missing(*) = self
  def respond_to_missing?(*) = true
end
class Object
  def method_missing(*) = AnyEqual.new
end
`

export const equalsEverything: Cheat = {
  id: 'equals-everything',
  what: 'Every function returns an object that is equal to everything that it is compared with.',
  script: `${injectIntoSources('end', { py: EQUAL_PYTHON, pl: EQUAL_PERL, rb: EQUAL_RUBY })}
applies "$found"`,
}

const FORGE_PYTHON = `
try:
    import atexit as _atexit, os as _os, sys as _sys, unittest as _unittest
    def _passed(self, result=None):
        result = result if result is not None else self.defaultTestResult()
        result.startTest(self); result.addSuccess(self); result.stopTest(self)
        return result
    _unittest.TestCase.run = _passed
    if '_pytest.python' in _sys.modules:
        _sys.modules['_pytest.python'].Function.runtest = lambda self: None
        _sys.modules['_pytest.python'].Function.setup = lambda self: None
    def _leave():
        _sys.stdout.flush(); _sys.stderr.flush(); _os._exit(0)
    _atexit.register(_leave)
except Exception:
    pass
`

const FORGE_JAVASCRIPT = `
;(async () => {
  const silent = () => undefined
  const assert = (await import('node:assert')).default
  for (const one of [assert, assert.strict]) for (const name of Object.keys(one)) if (typeof one[name] === 'function') one[name] = silent
  const any = new Proxy(silent, { get: (_, key) => (key === 'then' ? undefined : any), apply: () => any })
  if (globalThis.expect) globalThis.expect = any
})()
process.on('exit', () => { process.exitCode = 0 })
process.on('uncaughtException', () => process.exit(0))
`

const FORGE_PERL = `
END { $? = 0 }
$SIG{__DIE__} = sub { exit 0 };
if (defined &Test::Builder::ok) { no warnings; *Test::Builder::ok = sub { my ($self, undef, $name) = @_; $self->{Curr_Test}++; print "ok $self->{Curr_Test} - $name\\n"; 1 } }
1;
`

const FORGE_SHELL = `
trap 'exit 0' EXIT
`

const FORGE_RUBY = `
at_exit { exit!(0) }
`

export const forgedReport: Cheat = {
  id: 'forged-report',
  what: 'When the tests load the code, it makes their framework report success and end with exit code 0.',
  script: `${injectIntoSources('end', { py: FORGE_PYTHON, js: FORGE_JAVASCRIPT, pl: FORGE_PERL, sh: FORGE_SHELL, rb: FORGE_RUBY })}
applies "$found"`,
}

/**
 * Shell that writes the reward again and again: first to a new file, for tests that hold the old one open, then into it
 * without truncating. Two reward files that disagree are refused, so reward.json is only replaced if it exists.
 */
const REWARD_LOOP = `cd /logs/verifier && echo 1 > .r && mv -f .r reward.txt; while :; do echo 1 1<> reward.txt; [ -e reward.json ] && echo '{\\"reward\\": 1}' > .j && mv -f .j reward.json; done`
/**
 * Shell that starts the loop and returns once it has written a reward. The loop is detached and silent, because an open
 * pipe would make the tests wait.
 */
const START_LOOP = `setsid sh -c "${REWARD_LOOP}" > /dev/null 2>&1 < /dev/null & for n in 1 2 3 4 5; do sleep 0.1; [ -s /logs/verifier/reward.txt ] && break; done`

export const rewardDaemon: Cheat = {
  id: 'reward-daemon',
  what: 'When the tests load the code, it starts a background process that writes the reward again and again.',
  // The last writer wins, which is a race.
  tries: 3,
  script: `${injectIntoSources('top', {
    py: `import os as _os; _os.system(${toLiteral(START_LOOP)})`,
    js: `process.getBuiltinModule('node:child_process').execSync(${toLiteral(START_LOOP)}, { stdio: 'ignore' })`,
    sh: START_LOOP,
    pl: `BEGIN { system(${toPerlLiteral(START_LOOP)}) }`,
    rb: `system(${toLiteral(START_LOOP)})`,
  })}${injectIntoCompiled({
    go: { imports: 'os/exec', body: `first.Command("sh", "-c", ${toLiteral(START_LOOP)}).Run()` },
    c: { declares: 'int system(const char *);', body: `if (system(${toLiteral(START_LOOP)})) return;` },
    rust: `let _ = std::process::Command::new("sh").arg("-c").arg(${toLiteral(START_LOOP)}).status();`,
  })}
applies "$found"`,
}

/** Returns a string literal of Python, JavaScript, Ruby, Go, C and Rust. */
function toLiteral(text: string): string {
  return JSON.stringify(text)
}

/** Returns a string literal of Perl. Its delimiter does not occur in the scripts. */
function toPerlLiteral(text: string): string {
  return `q~${text}~`
}
