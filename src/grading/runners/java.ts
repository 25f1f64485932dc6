/** A class of tests: the folder of its module, and the class by its path. */
export const JAVA_TEST: RegExp =
  /^(?:(?<module>.*)\/)?src\/test\/(?:java|kotlin|groovy)\/(?<type>.+)\.(?:java|kt|groovy)$/

export const isJavaTest = (path: string): boolean =>
  JAVA_TEST.test(path) && /(^|\/)(Test[^/]*|[^/]*(Tests?|TestCase|Spec|IT))\.\w+$/.test(path)

/** Service files through which JUnit, TestNG, Spock and the compiler load code from the class path. */
export const JAVA_SERVICES = [
  'org.junit.*',
  'org.testng.*',
  'org.spockframework.*',
  'javax.annotation.processing.Processor',
]

/** Both write one report for each class into folders of the build: old ones go first, new ones are gathered. */
export const withReports = (folder: string, command: string): string =>
  `find . -type d -path '*/${folder}' -prune -exec rm -rf {} +
${command}
code=$?
find . -path '*/${folder}/*' -name 'TEST-*.xml' -type f | sort | {
  count=0
  while IFS= read -r file; do count=$((count + 1)); cp "$file" "$ASSAY_REPORT/$count.xml"; done
}
exit $code`
