import type { DockerfileInstruction } from '../dockerfile.ts'
import type { UsedDockerfile } from './task-parts.ts'

/** A source path of COPY or ADD in the build context. */
export type CopySource = { source: string; target: string; line: number }

export const listCopies = ({ dockerfile }: UsedDockerfile): CopySource[] =>
  dockerfile.stages
    .flatMap(({ instructions }) => instructions)
    .filter(({ keyword }) => keyword === 'COPY' || keyword === 'ADD')
    .filter(({ flags }) => !flags.some(({ name }) => name === 'from'))
    .flatMap(toCopySources)

function toCopySources({ text, exec, line }: DockerfileInstruction): CopySource[] {
  const words = exec ?? text.split(/\s+/).map((word) => word.replace(/^["']|["']$/g, ''))
  const target = words.at(-1) ?? ''
  return words
    .slice(0, -1)
    .filter((word) => word !== '' && !word.startsWith('<<') && !/^[a-z+]{2,10}:\/\//.test(word))
    .map((source) => ({ source, target, line }))
}

/** Tests whether a COPY includes a path of the build context. */
export function copiesPath({ source }: CopySource, path: string): boolean {
  const wanted = source.split('/').filter((part) => part !== '' && part !== '.')
  const parts = path.split('/')
  return wanted.length <= parts.length && wanted.every((pattern, index) => matchesPattern(pattern, parts[index] ?? ''))
}

/** Compares only the text before the first and after the last wildcard, so it may match too much but not too little. */
function matchesPattern(pattern: string, text: string): boolean {
  const first = pattern.search(/[*?[\\]/)
  if (first < 0) return pattern === text
  const last = Math.max(...['*', '?', ']'].map((mark) => pattern.lastIndexOf(mark)))
  return text.startsWith(pattern.slice(0, first)) && text.endsWith(pattern.slice(last + 1))
}
