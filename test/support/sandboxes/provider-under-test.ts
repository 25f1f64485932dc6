import type { Image, SandboxProvider } from '../../../src/sandboxes/sandbox.ts'

/** A provider with its images, as the conformance suite needs it. */
export type ProviderUnderTest = AsyncDisposable & {
  provider: SandboxProvider
  /** Debian's minbase (`baseRootfs` of test/support/base-image.ts) as this provider knows it: user root, workdir /. */
  image: Image
  /** A second image with the same files and /mine/of-the-image. */
  otherImage: Image
  /** An image that cannot be started. */
  brokenImage: Image
  /**
   * Lists what a sandbox with this id has on the machine: mounts, cgroups, containers, folders. Empty after `remove`.
   */
  leftovers(id: string): Promise<string[]>
  /** Reasons why cases cannot pass on this machine, by name of the case. */
  unable: Record<string, string>
}
