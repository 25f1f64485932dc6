import type { Image, SandboxProvider } from '../../sandboxes/sandbox.ts'

/** Images that stages of this process have, by provider and digest, with the number of stages. */
const IN_USE = new WeakMap<SandboxProvider, Map<string, number>>()

type CandidateImages = AsyncDisposable & {
  /** The provider, remembering the images that are built through it. */
  provider: SandboxProvider
  /** Lets closing remove these images, except those that another stage has. Shared images stay. */
  discard(): void
}

/** Follows the images that a stage builds for its candidate, so that those of a rejected candidate can be removed. */
export function followImages(provider: SandboxProvider): CandidateImages {
  const users = IN_USE.get(provider) ?? new Map<string, number>()
  IN_USE.set(provider, users)
  const built = new Map<string, Image>()
  let isRejected = false
  return {
    provider: {
      ...provider,
      async prepare(source, options) {
        const image = await provider.prepare(source, options)
        if (source.kind === 'prebuilt' || options.isShared || built.has(image.digest)) return image
        built.set(image.digest, image)
        users.set(image.digest, (users.get(image.digest) ?? 0) + 1)
        return image
      },
    },
    discard() {
      isRejected = true
    },
    async [Symbol.asyncDispose]() {
      for (const [digest, image] of built) {
        const left = (users.get(digest) ?? 1) - 1
        if (left > 0) users.set(digest, left)
        else users.delete(digest)
        // An image that cannot be removed now is evicted later.
        if (isRejected && left === 0) await provider.discard(image).catch(() => {})
      }
    },
  }
}
