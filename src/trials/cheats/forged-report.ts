import type { Cheat } from './cheat.ts'
import { codeInSources } from './code-in-sources.ts'

const PYTHON = `
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

const JAVASCRIPT = `
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

const PERL = `
END { $? = 0 }
$SIG{__DIE__} = sub { exit 0 };
if (defined &Test::Builder::ok) { no warnings; *Test::Builder::ok = sub { my ($self, undef, $name) = @_; $self->{Curr_Test}++; print "ok $self->{Curr_Test} - $name\\n"; 1 } }
1;
`

const SHELL = `
trap 'exit 0' EXIT
`

const RUBY = `
at_exit { exit!(0) }
`

export const forgedReport: Cheat = {
  id: 'forged-report',
  what: 'Loaded into the process of the tests, the code makes their framework report success and end with it.',
  line: `${codeInSources('end', { py: PYTHON, js: JAVASCRIPT, pl: PERL, sh: SHELL, rb: RUBY })}
applies "$found"`,
}
