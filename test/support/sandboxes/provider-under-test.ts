import type { Image, SandboxProvider } from '../../../src/sandboxes/sandbox.ts'

/** A provider with its images, as the conformance suite needs it. */
export type ProviderUnderTest = AsyncDisposable & {
  provider: SandboxProvider
  /** Debian's minbase (`baseRootfs` of test/support/base-image.ts) as this provider knows it: user root, workdir /. */
  image: Image
  /** Another of the same files, with /mine/of-the-image too. */
  otherImage: Image
  /** An image that cannot be started. */
  brokenImage: Image
  /**
   * Lists what a sandbox with this id has on the machine: mounts, cgroups, containers, folders. Empty after `remove`.
   */
  leftovers(id: string): Promise<string[]>
  /** The cases that it cannot pass on this machine, by name, each with the reason. */
  unable: Record<string, string>
}
