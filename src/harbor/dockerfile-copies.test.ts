import { expect, test } from 'vitest'
import { copiesPath, listCopies, readDockerfile } from './dockerfile.ts'

const copies = (...lines: string[]) => {
  const text = ['FROM a', ...lines, ''].join('\n')
  const dockerfile = readDockerfile(text)
  return listCopies(dockerfile)
}

test.each([
  ['COPY . /app', ['a/b.py', 'c'], []],
  ['COPY a /app', ['a', 'a/b.py'], ['ab', 'b']],
  ['COPY ./a/ c.txt /app/', ['a/x', 'c.txt'], ['c.txt2']],
  ['COPY ["a b", "/app"]', ['a b'], ['a']],
  ['COPY --chown=1 a*.py /app', ['ab.py', 'a.py'], ['b.py', 'a.js']],
  ['ADD https://example.org/x /x', [], ['x']],
  ['COPY --from=base /a /b', [], ['a']],
])('%s copies %j and not %j', (line, taken, left) => {
  const found = copies(line)
  const isTaken = (path: string) => found.some((copy) => copiesPath(copy, path))
  expect({ taken: taken.filter(isTaken), left: left.filter(isTaken) }).toEqual({ taken, left: [] })
})
