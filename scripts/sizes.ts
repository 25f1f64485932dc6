const LINES_MAX = 400

const isCode = (path: string): boolean => /\.(ts|tsx|js|cjs|mjs)$/.test(path) && !/\.gen\.ts$/.test(path)

/** Lists code files that are too long. */
export const listLongFiles = (paths: readonly string[], read: (path: string) => string): string[] =>
  paths
    .filter(isCode)
    .map((path) => ({ path, lines: read(path).trimEnd().split('\n').length }))
    .filter(({ lines }) => lines > LINES_MAX)
    .map(({ path, lines }) => `${path} has ${lines} lines; the maximum is ${LINES_MAX}.`)
