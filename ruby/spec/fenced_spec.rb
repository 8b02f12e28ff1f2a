# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/outbox_database"

RSpec.describe Seriatim::Fenced do
  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }
  after { ActiveRecord::Base.connection_pool.disconnect! if ActiveRecord::Base.connected? }

  OutboxDatabase::ADAPTERS.each do |adapter|
    context "with #{adapter}" do
      before do
        skip "PostgreSQL is not installed" if adapter == "PostgreSQL" && !PostgresServer.installed?
        OutboxDatabase.open(adapter, @dir)
      end

      def order = @order ||= OutboxDatabase::Order.create!(state: "new")
      def state = OutboxDatabase::Order.find(order.id).state
      def write(fence, state) = Seriatim.fenced(OutboxDatabase::Order.find(order.id), fence) { |record| record.update!(state: state) }

      it "R-FENCE-1: writes under a fence that is not older than the last one, and raises Stale under an older one" do
        expect(write(5, "paid")).to be(true)
        expect(write(5, "packed")).to be(true)
        write(9, "sent")
        expect { write(5, "paid") }.to raise_error(Seriatim::Stale, /was written under the fence 9, which is newer than 5/)
        expect(state).to eq("sent")
        write(10, "delivered")
        expect(state).to eq("delivered")
      end

      it "R-FENCE-1: takes a record whose primary key has several columns" do
        skip "such keys came with Rails 7.1" if ActiveRecord.gem_version < Gem::Version.new("7.1")
        ActiveRecord::Base.connection.create_table(:lines, primary_key: %i[order_id place], force: true) do |t|
          t.integer :order_id
          t.integer :place
          t.string :state
          t.bigint :seriatim_fence
        end
        stub_const("Line", Class.new(ActiveRecord::Base) { self.table_name = "lines" })
        first, second = Array.new(2) { |place| Line.create!(order_id: 1, place: place, state: "new") }
        Seriatim.fenced(first, 5) { |line| line.update!(state: "sent") }
        expect { Seriatim.fenced(first, 4) { raise "called" } }.to raise_error(Seriatim::Stale, /Line \[1, 0\] was written under the fence 5/)
        Seriatim.fenced(second, 4) { |line| line.update!(state: "paid") }
        expect(Line.order(:place).pluck(:state)).to eq(%w[sent paid])
      ensure
        ActiveRecord::Base.connection.drop_table(:lines, if_exists: true)
      end

      it "yields the record as it is now, and takes the fence back when the block raises" do
        stale_copy = OutboxDatabase::Order.find(order.id)
        write(5, "paid")
        Seriatim.fenced(stale_copy, 6) { |record| expect(record.state).to eq("paid") }
        expect { Seriatim.fenced(order, 8) { raise "no" } }.to raise_error("no")
        write(7, "sent")
        expect(state).to eq("sent")
      end

      it "does not call the block for a wrong fence, a record that is gone, or one with unsaved changes" do
        expect { write(nil, "paid") }.to raise_error(Seriatim::Invalid, /fence must be an Integer above 0/)
        changed = OutboxDatabase::Order.find(order.id)
        changed.state = "other"
        expect { Seriatim.fenced(changed, 1) { raise "called" } }.to raise_error(Seriatim::Invalid, /unsaved changes/)
        gone = OutboxDatabase::Order.create!
        gone.class.delete(gone.id)
        expect { Seriatim.fenced(gone, 1) { raise "called" } }.to raise_error(ActiveRecord::RecordNotFound)
        expect(state).to eq("new")
      end
    end
  end
end
