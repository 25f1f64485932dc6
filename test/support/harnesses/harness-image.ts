import type { Harness } from '../../../src/harnesses/harness.ts'
import { baseRootfs } from '../base-image.ts'
import { pythonRootfs } from '../grading/images.ts'
import { TOOLS_IMAGE, toolsRootfs } from '../trials/tools-image.ts'
import { IMAGE, type TestImage } from '../trials/trial-runner.ts'

/** Images with a python3, newest first. */
const PYTHON_IMAGES: (TestImage & { python: string })[] = [
  { python: '3.13', name: 'assay-tests/python:3.13', rootfs: pythonRootfs },
  { python: '3.11', name: TOOLS_IMAGE, rootfs: toolsRootfs },
]

/** Returns the image in which a harness is tested: the base image, or one with the Python that the program needs. */
export function imageFor({ bundle }: Harness): TestImage {
  const locks = (bundle?.parts ?? []).flatMap((part) => ('lock' in part && 'wheels' in part.lock ? [part.lock] : []))
  const [lock] = locks
  if (!lock) return { name: IMAGE, rootfs: () => baseRootfs() }
  const image = PYTHON_IMAGES.find(({ python }) => lock.pythons.includes(python))
  if (!image) throw new Error(`No test image has a Python for ${lock.package}.`)
  return image
}
