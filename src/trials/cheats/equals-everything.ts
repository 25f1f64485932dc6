import type { Cheat } from './cheat.ts'
import { codeInSources } from './code-in-sources.ts'

const PYTHON = `
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

const PERL = `
{ package Any::Equal; use overload '==' => sub { 1 }, 'eq' => sub { 1 }, '!=' => sub { '' }, 'ne' => sub { '' },
  'cmp' => sub { 0 }, '<=>' => sub { 0 }, 'bool' => sub { 1 }, '""' => sub { '1' }, fallback => 1; }
{ no strict 'refs'; no warnings;
  for my $name (grep { defined &{__PACKAGE__ . "::$_"} } keys %{__PACKAGE__ . '::'}) {
    *{__PACKAGE__ . "::$name"} = sub { bless {}, 'Any::Equal' } } }
1;
`

const RUBY = `
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
  what: 'Every function answers with an object that is equal to whatever it is compared with.',
  line: `${codeInSources('end', { py: PYTHON, pl: PERL, rb: RUBY })}
applies "$found"`,
}
