import type { SampleProject } from '../sample-project.ts'

export const rspecSample: SampleProject = {
  runner: 'rspec',
  tree: {
    '.rspec': '--require spec_helper\n',
    'lib/shapes.rb': 'def area(side)\n  side * side\nend\n',
    'spec/spec_helper.rb': "require 'shapes'\n",
    'spec/shapes_spec.rb': `RSpec.describe 'area' do
  it('is square') { expect(area(2)).to eq 4 }
  it('is wrong') { expect(area(2)).to eq 5 }
  it('has an error') { raise 'no such shape' }
  xit('comes later') { }
  it('is planned')
  ['größe', '面積', 'a > b'].each { |text| it("has the text #{text}") { expect(text).to be_a String } }
end
`,
    'spec/other_spec.rb': "RSpec.describe 'other' do\n  it('is fine') { }\nend\n",
  },
  statuses: {
    './spec/shapes_spec.rb > area is square': 'passed',
    './spec/shapes_spec.rb > area is wrong': 'failed',
    './spec/shapes_spec.rb > area has an error': 'failed',
    './spec/shapes_spec.rb > area comes later': 'skipped',
    './spec/shapes_spec.rb > area is planned': 'skipped',
    './spec/shapes_spec.rb > area has the text größe': 'passed',
    './spec/shapes_spec.rb > area has the text 面積': 'passed',
    './spec/shapes_spec.rb > area has the text a > b': 'passed',
    './spec/other_spec.rb > other is fine': 'passed',
  },
  target: 'spec/other_spec.rb',
  targetStatuses: { './spec/other_spec.rb > other is fine': 'passed' },
  failureMessage: ['./spec/shapes_spec.rb > area is wrong', 'expected: 5'],
}
