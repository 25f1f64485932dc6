import type { SampleProject } from '../sample-project.ts'

export const phpunitSample: SampleProject = {
  runner: 'phpunit',
  tree: {
    'phpunit.xml':
      '<phpunit colors="false"><testsuites><testsuite name="all"><directory>tests</directory></testsuite></testsuites></phpunit>\n',
    'src/shapes.php': '<?php\nfunction area($side) { return $side * $side; }\n',
    'tests/ShapesTest.php': `<?php
require_once __DIR__ . '/../src/shapes.php';
use PHPUnit\\Framework\\Attributes\\DataProvider;
use PHPUnit\\Framework\\TestCase;

final class ShapesTest extends TestCase {
  public function testSquare(): void { $this->assertSame(4, area(2)); }
  public function testWrong(): void { $this->assertSame(5, area(2)); }
  public function testError(): void { throw new RuntimeException('no such shape'); }
  public function testLater(): void { $this->markTestSkipped('later'); }
  public static function texts(): array { return ['größe' => [1], '面積' => [2], 'a > b' => [3]]; }
  #[DataProvider('texts')]
  public function testText($side): void { $this->assertSame($side * $side, area($side)); }
}
`,
    'tests/OtherTest.php': `<?php
final class OtherTest extends PHPUnit\\Framework\\TestCase {
  public function testSquare(): void { $this->assertTrue(true); }
}
`,
  },
  statuses: {
    'ShapesTest::testSquare': 'passed',
    'ShapesTest::testWrong': 'failed',
    'ShapesTest::testError': 'errored',
    'ShapesTest::testLater': 'skipped',
    'ShapesTest::testText with data set "größe"': 'passed',
    'ShapesTest::testText with data set "面積"': 'passed',
    'ShapesTest::testText with data set "a > b"': 'passed',
    'OtherTest::testSquare': 'passed',
  },
  target: 'tests/OtherTest.php',
  targetStatuses: { 'OtherTest::testSquare': 'passed' },
  failureMessage: ['ShapesTest::testWrong', 'Failed asserting that 4 is identical to 5'],
}
