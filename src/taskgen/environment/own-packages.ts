import type { TreeFacts } from '../../grading/suite.ts'
import { packageOf } from './recipes/node.ts'
import { publishedNames } from './recipes/python-project.ts'
import { named } from './recipes/recipe.ts'

const PACKAGES_MAX = 200
const POM_LETTERS_MAX = 64 * 1024

/** What registries call the repository: `ecosystem:name`. A copy of one in an image may have the fix. */
export function ownPackages(tree: TreeFacts): string[] {
  const texts = (pattern: RegExp): string[] => named(tree, pattern).flatMap((path) => tree.texts.get(path) ?? [])
  const all = [
    ...publishedNames(tree).map((name) => `python:${name}`),
    ...named(tree, /^package\.json$/).flatMap((path) => prefixed('node', packageOf(tree, path).name)),
    ...texts(/^go\.mod$/).flatMap((text) => prefixed('go', /^module\s+(\S+)/m.exec(text)?.[1])),
    ...texts(/^Cargo\.toml$/).flatMap((text) => prefixed('rust', crateOf(text))),
    ...texts(/^pom\.xml$/).flatMap((text) => prefixed('java', artifactOf(text))),
    ...named(tree, /\.gemspec$/).map((path) => `ruby:${path.slice(path.lastIndexOf('/') + 1, -'.gemspec'.length)}`),
    ...texts(/^composer\.json$/).flatMap((text) =>
      prefixed('php', /"name"\s*:\s*"([\w.-]+\/[\w.-]+)"/.exec(text)?.[1]),
    ),
  ]
  return [...new Set(all)].slice(0, PACKAGES_MAX)
}

const prefixed = (ecosystem: string, name: string | undefined): string[] =>
  name === undefined || name === '' ? [] : [`${ecosystem}:${name}`]

const crateOf = (text: string): string | undefined => {
  const from = text.indexOf('[package]')
  return from === -1 ? undefined : /^name\s*=\s*["']([\w-]+)["']/m.exec(text.slice(from))?.[1]
}

/** Its own names, and not those of its parent or of what it depends on. */
function artifactOf(whole: string): string | undefined {
  const text = whole.slice(0, POM_LETTERS_MAX)
  const own = text.replaceAll(/<(parent|dependencies|build|profiles|dependencyManagement)>.*?<\/\1>/gs, '')
  const parent = /<parent>.*?<\/parent>/s.exec(text)?.[0] ?? ''
  const value = (name: string, from: string) => new RegExp(`<${name}>\\s*([\\w.-]+)\\s*</${name}>`).exec(from)?.[1]
  const [group, artifact] = [value('groupId', own) ?? value('groupId', parent), value('artifactId', own)]
  return group === undefined || artifact === undefined ? undefined : `${group}:${artifact}`
}
