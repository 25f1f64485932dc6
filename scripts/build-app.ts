import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { BUILD_FOLDER, isBuildStale } from '../src/workspace-app/build.ts'
import { ROOT } from './files.ts'

// `npm run build` and `npm ci`: builds the workspace app into web/app/dist and compresses its files. With --if-stale it does
// nothing if the build is newer than the sources.

const LOCK = `${BUILD_FOLDER}.lock`
/** An older lock was left by a build that was killed. */
const LOCK_AGE_MAX_MS = 120_000
const LOCK_POLL_MS = 200
const COMPRESSIBLE = /\.(html|js|css|svg)$/

async function main(): Promise<void> {
  if (process.argv.includes('--if-stale') && !(await isBuildStale())) return
  const buildTools = await loadBuildTools()
  if (!buildTools)
    return console.error(
      'The workspace app is not built: vite is not installed. Run npm ci with development dependencies.',
    )
  while (!(await takeLock())) {
    await wait(LOCK_POLL_MS)
    if (!(await isBuildStale())) return
  }
  // Tests start this program with another value of NODE_ENV, which would select the development build of React.
  process.env.NODE_ENV = 'production'
  const folder = `${BUILD_FOLDER}.${process.pid}`
  try {
    await buildTools.build(toViteConfig(folder, buildTools.react()))
    await compressFiles(folder)
    await rm(BUILD_FOLDER, { recursive: true, force: true })
    await rename(folder, BUILD_FOLDER)
  } finally {
    await rm(folder, { recursive: true, force: true })
    await rm(LOCK, { recursive: true, force: true })
  }
}

/** Loads the build tools. Undefined in an installation without development dependencies. */
async function loadBuildTools() {
  try {
    const [{ build }, { default: react }] = await Promise.all([import('vite'), import('@vitejs/plugin-react')])
    return { build, react }
  } catch {
    return undefined
  }
}

/** Takes the lock of the build. Returns false if another process has it. */
async function takeLock(): Promise<boolean> {
  const existingLock = await stat(LOCK).catch(() => undefined)
  if (existingLock && Date.now() - existingLock.mtimeMs > LOCK_AGE_MAX_MS)
    await rm(LOCK, { recursive: true, force: true })
  try {
    await mkdir(LOCK)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

const toViteConfig = (outDir: string, plugins: unknown) => ({
  configFile: false as const,
  root: join(ROOT, 'web/app'),
  base: '/app/',
  publicDir: false as const,
  // Hides warnings: fonts in tokens.css are served by the public pages, so the build cannot resolve them.
  logLevel: 'error' as const,
  plugins: plugins as never,
  build: {
    outDir,
    emptyOutDir: true,
    target: 'es2024',
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // An inlined asset would be a data URL, which the content security policy refuses.
    assetsInlineLimit: 0,
  },
})

async function compressFiles(folder: string): Promise<void> {
  const names = await readdir(folder, { recursive: true })
  for (const name of names.filter((each) => COMPRESSIBLE.test(each))) {
    const bytes = await readFile(join(folder, name))
    await writeFile(join(folder, `${name}.br`), brotliCompressSync(bytes))
    await writeFile(join(folder, `${name}.gz`), gzipSync(bytes, { level: 9 }))
  }
}

await main()
