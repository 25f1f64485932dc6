import type { Instruction } from '../dockerfile.ts'
import type { UsedDockerfile } from './task-parts.ts'

/** One source of a COPY or ADD that is a path of the build's folder. */
export type CopyOf = { source: string; target: string; line: number }

export const copiesOf = ({ dockerfile }: UsedDockerfile): CopyOf[] =>
  dockerfile.stages
    .flatMap(({ instructions }) => instructions)
    .filter(({ keyword }) => keyword === 'COPY' || keyword === 'ADD')
    .filter(({ flags }) => !flags.some(({ name }) => name === 'from'))
    .flatMap(sources)

function sources({ text, exec, line }: Instruction): CopyOf[] {
  const words = exec ?? text.split(/\s+/).map((word) => word.replace(/^["']|["']$/g, ''))
  const target = words.at(-1) ?? ''
  return words
    .slice(0, -1)
    .filter((word) => word !== '' && !word.startsWith('<<') && !/^[a-z+]{2,10}:\/\//.test(word))
    .map((source) => ({ source, target, line }))
}

/** Whether a copy takes this path of the build's folder. */
export function takes({ source }: CopyOf, path: string): boolean {
  const wanted = source.split('/').filter((part) => part !== '' && part !== '.')
  const parts = path.split('/')
  return wanted.length <= parts.length && wanted.every((pattern, place) => isLike(pattern, parts[place] ?? ''))
}

/** Of a pattern only what stands before its first mark and after its last one is compared: too much rather than too little. */
function isLike(pattern: string, text: string): boolean {
  const first = pattern.search(/[*?[\\]/)
  if (first < 0) return pattern === text
  const last = Math.max(...['*', '?', ']'].map((mark) => pattern.lastIndexOf(mark)))
  return text.startsWith(pattern.slice(0, first)) && text.endsWith(pattern.slice(last + 1))
}
