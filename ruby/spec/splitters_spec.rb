# frozen_string_literal: true

require_relative "spec_helper"

# What groups they make stands in spec/conformance/vectors/split.json.
RSpec.describe Seriatim::Splitters, :core do
  it "refuses an invalid node number" do
    expect { Seriatim.build_by_node_splitter(2, 2) }.to raise_error(Seriatim::Invalid, /node_number/)
  end

  it "gives no static groups with the balanced splitter" do
    expect(Seriatim.build_balanced_splitter.call([])).to be_nil
  end
end
