export type Named = { name: string; signature: string | null }

export type Constant = 'nothing' | 'true' | 'false'

/** Text to put at the end of a file. What is there already stays what it is. */
type Stubber = (names: readonly Named[], constant: Constant) => string

/** Which of the two kinds a file of JavaScript is, its text tells. */
type Stubs = { write: Stubber; when: 'always' | 'has_imports' | 'has_none' }

const ENDINGS: [RegExp, Stubs][] = [
  [/\.py$/, { write: python, when: 'always' }],
  [/\.(?:mts|ts|tsx)$/, { write: typedModule, when: 'always' }],
  [/\.mjs$/, { write: plainModule, when: 'always' }],
  [/\.cjs$/, { write: script, when: 'always' }],
  [/\.jsx?$/, { write: plainModule, when: 'has_imports' }],
  [/\.jsx?$/, { write: script, when: 'has_none' }],
  [/\.go$/, { write: go, when: 'always' }],
  [/\.rb$/, { write: ruby, when: 'always' }],
]

export const stubsFor = (path: string): Stubs[] =>
  ENDINGS.filter(([ending]) => ending.test(path)).map(([, stubs]) => stubs)

/** Functions of the module, and methods of every class in it. */
function python(names: readonly Named[], constant: Constant): string {
  const value = { nothing: 'None', true: 'True', false: 'False' }[constant]
  return `for _name in ${JSON.stringify(names.map(({ name }) => name))}:
    _stub = lambda *_a, **_k: ${value}
    for _value in list(globals().values()):
        if isinstance(_value, type) and _value.__module__ == __name__ and not hasattr(_value, _name):
            setattr(_value, _name, _stub)
    globals().setdefault(_name, _stub)`
}

const valueInScript = (constant: Constant): string => (constant === 'nothing' ? 'undefined' : constant)

function typedModule(names: readonly Named[], constant: Constant): string {
  const answer = `(..._: any[]): any { return ${valueInScript(constant)} }`
  return names.map(({ name }) => `export function ${name}${answer}`).join('\n')
}

function plainModule(names: readonly Named[], constant: Constant): string {
  return names.map(({ name }) => `export function ${name}() { return ${valueInScript(constant)} }`).join('\n')
}

/** What is exported, and methods of every class that is. */
function script(names: readonly Named[], constant: Constant): string {
  const listed = JSON.stringify(names.map(({ name }) => name))
  return `for (const name of ${listed}) {
  const stub = () => ${valueInScript(constant)}
  if (module.exports[name] === undefined) module.exports[name] = stub
  for (const one of [module.exports, ...Object.values(module.exports)])
    if (typeof one === 'function' && one.prototype && !(name in one.prototype)) one.prototype[name] = stub
}`
}

const GO_FUNCTION = /^func\s+(?:\([^)]*\)\s*)?\w+\s*\([^)]*\)\s*(.*?)\s*\{?$/s

/** The zero value of whatever it answers with, by its signature; so there is one constant. */
function go(names: readonly Named[], constant: Constant): string {
  if (constant !== 'nothing') return ''
  return names
    .flatMap(({ signature }) => {
      const answers = signature === null ? undefined : GO_FUNCTION.exec(signature.trim())?.[1]
      if (signature === null || answers === undefined) return []
      return [`${signature.trim().replace(/\s*\{$/, '')} { ${zeroOf(answers)} }`]
    })
    .join('\n')
}

function zeroOf(answers: string): string {
  if (answers === '') return ''
  const listed = answers.startsWith('(') ? answers.slice(1, -1).split(',') : [answers]
  const isNamed = answers.startsWith('(') && listed.every((each) => /^\s*\w+\s+\S/.test(each))
  return isNamed ? 'return' : `return ${listed.map((type) => `*new(${type.trim()})`).join(', ')}`
}

/** On every object, so that it is found wherever it is asked for. */
function ruby(names: readonly Named[], constant: Constant): string {
  const value = constant === 'nothing' ? 'nil' : constant
  const stubs = names.map(({ name }) => `  def ${name}(*, **) = ${value} unless method_defined?(:${name})`)
  return `class Object\n${stubs.join('\n')}\nend`
}
