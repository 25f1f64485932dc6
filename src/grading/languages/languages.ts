import { cpp } from './cpp.ts'
import { go } from './go.ts'
import { java } from './java.ts'
import type { LanguageEcosystem, Runner, RunnerSetup, SourceLanguage } from './language.ts'
import { node } from './node.ts'
import { OTHER_SOURCES } from './other-sources.ts'
import { php } from './php.ts'
import { python } from './python.ts'
import { ruby } from './ruby.ts'
import { rust } from './rust.ts'

/** Every ecosystem for which tasks can be created. */
export const languages: readonly LanguageEcosystem[] = [python, node, go, rust, java, cpp, ruby, php]

/** Languages whose tests can be run take precedence over rows of `other-sources.ts`. */
const SOURCES = new Map(
  [...OTHER_SOURCES, ...languages.flatMap(({ sources }) => sources)].flatMap((source) =>
    source.extensions.map((extension) => [extension, source] as const),
  ),
)

/** Returns the language of a source file by its extension. */
export function findSourceLanguage(path: string): SourceLanguage | undefined {
  const extension = /\.([^./]+)$/.exec(path)?.[1]
  return extension === undefined ? undefined : SOURCES.get(extension.toLowerCase())
}

const SETUPS: readonly RunnerSetup[] = languages.flatMap(({ runners: setups }) => setups)

/** Runners in the order of detection: specific ones first, fallbacks last. */
export const runners: readonly Runner[] = SETUPS.map(({ runner }) => runner).toSorted(
  (one, other) => Number(one.isFallback) - Number(other.isFallback),
)

export const findRunner = (id: string): Runner | undefined => runners.find((runner) => runner.id === id)

export const findRunnerSetup = (id: string): RunnerSetup | undefined => SETUPS.find(({ runner }) => runner.id === id)

export const findLanguageOfRunner = (id: string): LanguageEcosystem | undefined =>
  languages.find(({ runners: setups }) => setups.some(({ runner }) => runner.id === id))
