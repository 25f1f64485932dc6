import type { Dockerfile } from '../../harbor/dockerfile.ts'

type BuildTarget = { target: string | null; args: Record<string, string> }

/** Lists the base images of the stages up to the target, except earlier stages and scratch. */
export function baseNames(
  { globals, stages }: Dockerfile,
  { target, args }: BuildTarget = { target: null, args: {} },
): string[] {
  const values = new Map<string, string>()
  const expand = (text: string): string =>
    text.replaceAll(
      /\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))/g,
      (_, name, fallback, bare) => values.get(name ?? bare) || (fallback ?? ''),
    )
  for (const { name, value } of globals.flatMap(({ pairs }) => pairs))
    values.set(name, args[name] ?? expand(value ?? ''))
  const last = target === null ? -1 : stages.findIndex(({ name }) => name === target)
  const own = new Set(['scratch'])
  const found = stages.slice(0, last === -1 ? stages.length : last + 1).flatMap(({ image, name }) => {
    const base = expand(image)
    const isOther = !own.has(base.toLowerCase())
    // Before the FROM that defines a stage, its name refers to an image.
    if (name !== null) own.add(name.toLowerCase())
    return isOther ? [base] : []
  })
  return [...new Set(found)]
}
