# frozen_string_literal: true

require_relative "spec_helper"

# LK-A-30: pure functions, no Redis.
RSpec.describe Seriatim::Splitters, :core do
  let(:shards) do
    { A: 3, B: 4, C: 1, D: 2 }.flat_map { |worker, count| Array.new(count) { |index| Seriatim::Shard.new(worker, index) } }
  end

  def names(groups) = groups.map { |group| group.map { |shard| "#{shard.worker}#{shard.index}" } }

  it "LK-A-30: deals to threads as Lowkiq does" do
    Seriatim.threads_per_node = 3
    expect(names(Seriatim.build_default_splitter.call(shards))).to eq([%w[A0 B0 B3 D1], %w[A1 B1 C0], %w[A2 B2 D0]])
  end

  it "LK-A-30: leaves empty groups out" do
    Seriatim.threads_per_node = 50
    expect(Seriatim.build_default_splitter.call(shards).map(&:size)).to eq([1] * 10)
    expect(Seriatim.build_default_splitter.call([])).to eq([])
  end

  it "LK-A-30: deals to nodes first, then to threads" do
    Seriatim.threads_per_node = 2
    nodes = Array.new(2) { |node| names(Seriatim.build_by_node_splitter(2, node).call(shards)) }
    expect(nodes).to eq([[%w[A0 B1 D0], %w[A2 B3]], [%w[A1 B2 D1], %w[B0 C0]]])
    expect(names(Seriatim.build_by_node_splitter(20, 15).call(shards))).to eq([])
  end

  it "refuses a node number that is none" do
    expect { Seriatim.build_by_node_splitter(2, 2) }.to raise_error(Seriatim::Invalid, /node_number/)
  end

  it "leaves the balanced one to the nodes" do
    expect(Seriatim.build_balanced_splitter.call(shards)).to be_nil
  end
end
