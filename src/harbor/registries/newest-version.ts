import { byCodePoint } from '../path-rules.ts'

/** What a dataset of a registry.json is without a version, as Harbor sees it: head, else the highest, else the last. */
export function newestVersion(versions: readonly string[]): string | undefined {
  if (versions.includes('head')) return 'head'
  const numbered = versions.flatMap((text) => {
    const rank = rankOf(text)
    return rank ? [{ text, rank }] : []
  })
  if (numbered.length > 0) return numbered.toSorted((a, b) => compare(a.rank, b.rank)).at(-1)?.text
  return versions.toSorted(byCodePoint).at(-1)
}

/** PEP 440, without local versions: `1!2.0rc1.post2.dev3`. */
const VERSION =
  /^v?(?:(?<epoch>\d{1,9})!)?(?<release>\d{1,9}(?:\.\d{1,9})*)(?:[._-]?(?<stage>a|b|rc|alpha|beta|c)[._-]?(?<pre>\d{0,9}))?(?:[._-]?post[._-]?(?<post>\d{0,9}))?(?:[._-]?dev[._-]?(?<dev>\d{0,9}))?$/i
const STAGES: Record<string, number> = { a: 0, alpha: 0, b: 1, beta: 1, c: 2, rc: 2 }
const FINAL = 3
const PARTS_MAX = 8

/** Numbers that sort as the versions do, the first difference deciding. */
function rankOf(text: string): number[] | undefined {
  const { epoch, release = '', stage, pre, post, dev } = VERSION.exec(text)?.groups ?? {}
  if (release === '') return undefined
  const parts = release.split('.').map(Number)
  const padded = Array.from({ length: PARTS_MAX }, (_, place) => parts[place] ?? 0)
  return [Number(epoch ?? 0), ...padded, ...suffix(stage, pre, dev, post), ...order(post, -1), ...order(dev, 1e9)]
}

/** A development version of nothing else comes before every other one of its release. */
function suffix(stage: string | undefined, pre: string | undefined, dev?: string, post?: string): number[] {
  if (stage !== undefined) return [STAGES[stage.toLowerCase()] ?? 0, Number(pre || 0)]
  return dev !== undefined && post === undefined ? [-1, 0] : [FINAL, 0]
}

const order = (number: string | undefined, whenAbsent: number): number[] => [
  number === undefined ? whenAbsent : Number(number || 0),
]

function compare(a: readonly number[], b: readonly number[]): number {
  const place = a.findIndex((value, at) => value !== b[at])
  return place < 0 ? 0 : (a[place] ?? 0) - (b[place] ?? 0)
}
