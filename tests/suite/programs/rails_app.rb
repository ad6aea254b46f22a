# frozen_string_literal: true

# A Rails application in one file, with a leak: each look at a product is kept for ever. Its root is the current directory.
require "logger" # (Active Support before 7.1 forgets it)
require "rails"
require "action_controller/railtie"
require "active_record/railtie"
require "mpp_recorder" unless ENV["WITHOUT_GEM"]

class Store < Rails::Application
  config.root = Dir.pwd
  config.eager_load = ENV["EAGER"] == "1"
  config.consider_all_requests_local = false
  config.secret_key_base = "for tests only " * 4
  config.logger = Logger.new("rails.log")
  config.hosts.clear
  config.active_record.legacy_connection_handling = false if Rails::VERSION::MAJOR == 6
  if config.respond_to?(:mpp_recorder)
    config.mpp_recorder.path = ENV["CONFIG_PATH"]
    config.mpp_recorder.label = true if ENV["LABEL"]
    config.mpp_recorder.mark_every = 50 if ENV["MARKS"]
    config.mpp_recorder.max_depth = Integer(ENV["MAX_DEPTH"]) if ENV["MAX_DEPTH"]
    config.mpp_recorder.no_such_option = 1 if ENV["WRONG"]
  end
  routes.append { resources :products, only: %i[index show] }
end

ENV["DATABASE_URL"] = "sqlite3:#{File.join(Dir.pwd, "store.sqlite3")}"
Rails.application.initialize!

ActiveRecord::Schema.verbose = false
unless ActiveRecord::Base.connection.table_exists?(:products)
  ActiveRecord::Schema.define { create_table(:products) { |t| t.string :name } }
end

class Product < ActiveRecord::Base
end

class ProductsController < ActionController::Base
  SEEN = [] # never emptied

  def index
    render json: Product.order(:id).limit(5).map(&:name)
  end

  def show
    product = Product.find(params[:id])
    SEEN << product.name.ljust(40_000) # the leak
    render plain: product.name
  end
end

20.times { |i| Product.create!(name: "Product #{i + 1}") } if Product.none?
