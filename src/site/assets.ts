import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const readAsset = (name: string): string => readFileSync(new URL(`../../web/assets/${name}`, import.meta.url), 'utf8')

/** The stylesheet of all pages. One file, because a page needs all of it before it is painted. */
export const stylesheet = ['tokens.css', 'base.css', 'site.css'].map(readAsset).join('')
export const script = readAsset('site.js')

const computeHash = (content: string | Uint8Array): string =>
  createHash('sha256').update(content).digest('base64url').slice(0, 12)

/** Version of stylesheet and script, in the links to them. */
export const assetVersion = computeHash(stylesheet + script)

const require = createRequire(import.meta.url)

/** Files of the fonts by the name in tokens.css. The names contain the version, because the files are cached for a year. */
const FONT_FILES: Record<string, string> = {
  'inter-5.3.0.woff2': require.resolve('@fontsource-variable/inter/files/inter-latin-wght-normal.woff2'),
  'source-serif-4-5.3.1.woff2': require.resolve(
    '@fontsource-variable/source-serif-4/files/source-serif-4-latin-wght-normal.woff2',
  ),
  'jetbrains-mono-5.3.0.woff2': require.resolve(
    '@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2',
  ),
}

/** Returns the path of a font of the pages, for programs that draw pictures. */
export function requireFontPath(family: string): string {
  const [, path] = Object.entries(FONT_FILES).find(([name]) => name.startsWith(family)) ?? []
  if (path === undefined) throw new Error(`No font ${family}`)
  return path
}

type Font = { body: Uint8Array<ArrayBuffer>; etag: string; type: string }

const fonts = new Map(
  Object.entries(FONT_FILES).map(([name, path]): [string, Font] => {
    const body = new Uint8Array(readFileSync(path))
    return [name, { body, etag: `"${computeHash(body)}"`, type: 'font/woff2' }]
  }),
)

/** Finds a font by its file name. */
export const findFont = (name: string): Font | undefined => fonts.get(name)
