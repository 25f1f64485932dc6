const CANARY = /^(<!--.*canary.*-->|#.*canary.*)$/i
const CANARY_LENGTH_MAX = 2000

/**
 * What the agent is told: without the lines at the top by which training data is kept free of benchmarks, and without
 * the empty lines after them.
 */
export function withoutCanary(text: string): string {
  const lines = text.split('\n')
  const first = lines.findIndex((line) => !isCanary(line.trim()))
  const start = lines.findIndex((line, place) => place >= first && line.trim() !== '')
  if (first < 0 || start < 0) return ''
  return lines.slice(start).join('\n')
}

const isCanary = (line: string): boolean => line.length <= CANARY_LENGTH_MAX && CANARY.test(line)
