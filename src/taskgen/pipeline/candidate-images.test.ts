import { expect, test } from 'vitest'
import type { Image, ImageSource, SandboxProvider } from '../../sandboxes/sandbox.ts'
import { trackImages } from './stage-context.ts'

const SETTINGS = { workdir: '/', user: 'root', env: {}, entrypoint: [], command: [], base: 'image' as const }
const unused = async (): Promise<never> => {
  throw new Error('Not needed by these tests.')
}

/** An image is named after its build context. */
function createProvider() {
  const discarded: string[] = []
  const provider: SandboxProvider = {
    name: 'named',
    selfTest: unused,
    prepare: async (source): Promise<Image> => ({
      ...SETTINGS,
      digest: source.kind === 'dockerfile' ? source.context : source.name,
    }),
    discard: async ({ digest }) => void discarded.push(digest),
    openNetwork: unused,
    start: unused,
    reap: unused,
  }
  return { provider, discarded }
}

const built = (context: string): ImageSource => ({
  kind: 'dockerfile',
  context,
  dockerfile: 'Dockerfile',
  target: null,
  args: {},
})
const OPTIONS = { signal: new AbortController().signal, timeoutSec: 1, onLog: () => {} }

test('removes the images of a rejected candidate, and not those that others share', async () => {
  const { provider, discarded } = createProvider()
  {
    await using images = trackImages(provider)
    await images.provider.prepare({ kind: 'prebuilt', name: 'base', folder: null, workdir: null }, OPTIONS)
    await images.provider.prepare(built('tools'), { ...OPTIONS, isShared: true })
    await images.provider.prepare(built('own'), OPTIONS)
    await images.provider.prepare(built('own'), OPTIONS)
    images.discard()
    expect(discarded).toEqual([])
  }
  expect(discarded).toEqual(['own'])
})

test('keeps the images of a candidate that was not rejected', async () => {
  const { provider, discarded } = createProvider()
  {
    await using images = trackImages(provider)
    await images.provider.prepare(built('own'), OPTIONS)
  }
  expect(discarded).toEqual([])
})

test('keeps an image that another stage still has', async () => {
  const { provider, discarded } = createProvider()
  {
    await using other = trackImages(provider)
    await other.provider.prepare(built('own'), OPTIONS)
    {
      await using rejected = trackImages(provider)
      await rejected.provider.prepare(built('own'), OPTIONS)
      rejected.discard()
    }
    expect(discarded).toEqual([])
    other.discard()
  }
  expect(discarded).toEqual(['own'])
})
