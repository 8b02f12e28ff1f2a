# frozen_string_literal: true

require_relative "spec_helper"

# What groups they make stands in spec/vectors/split.json.
RSpec.describe Seriatim::Splitters, :core do
  it "refuses a node number that is none" do
    expect { Seriatim.build_by_node_splitter(2, 2) }.to raise_error(Seriatim::Invalid, /node_number/)
  end

  it "leaves the balanced one to the nodes" do
    expect(Seriatim.build_balanced_splitter.call([])).to be_nil
  end
end
